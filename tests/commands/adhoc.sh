# Hosts that are not there, and facts that are forgotten.
printf '%s\n' '[web]' 'h1' 'h2' '[all:vars]' 'ansible_connection=local' > hosts
hosts() { show ansible "$@" | grep -v 'pattern'; }
hosts -i hosts all --list-hosts
hosts -i hosts nobody --list-hosts
hosts -i hosts 'h1:!h1' -m ping
hosts -i hosts 'web:!h1' --list-hosts
hosts -i hosts web -l nobody -m ping | grep -v ERROR
hosts -i /dev/null localhost --list-hosts
ANSIBLE_LOCALHOST_WARNING=true hosts -i /dev/null localhost --list-hosts
ANSIBLE_LOCALHOST_WARNING=true hosts -i /dev/null h1 -m ping
hosts -i hosts h1
export ANSIBLE_CACHE_PLUGIN=jsonfile ANSIBLE_CACHE_PLUGIN_CONNECTION=cache
show ansible -i hosts h1 -m set_fact -a 'kept=1 cacheable=yes'
show ansible -i hosts h1 -m debug -a 'msg={{ kept }}'
ls cache | sed s,s1_,,
ansible -i hosts h2 -m set_fact -a 'kept=1 cacheable=yes' > /dev/null
ansible -i hosts h1 -m debug -a 'msg={{ kept }}' --flush-cache > /dev/null; echo "rc=$?"
ls cache | sed s,s1_,,
