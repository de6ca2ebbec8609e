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
ls cache
ansible -i hosts h2 -m set_fact -a 'kept=1 cacheable=yes' > /dev/null
ansible -i hosts h1 -m debug -a 'msg={{ kept }}' --flush-cache > /dev/null; echo "rc=$?"
ls cache
# Each reads files that the other has written.
cat > cache/s1_h2 <<'END'
{"__payload__": "{\"kept\": {\"value\": [{\"value\": 1, \"tags\": [], \"__ansible_type\": \"_AnsibleTaggedInt\"}, null], \"tags\": [], \"__ansible_type\": \"_AnsibleTaggedList\"}}"}
END
show ansible -i hosts h2 -m debug -a 'var=kept'
rm cache/*
ansible -i hosts h1 -m set_fact -a '{"kept": {"a": [1, null, true, "\u00e9"]}, "cacheable": true}' > /dev/null
sed 's/, ..\?\\"tags.*//' cache/s1_h1 | cut -c 1-18
# The password of the connection is a variable of tasks.
echo secret > password
show ansible -i hosts h1 --connection-password-file password -m debug -a "msg={{ ansible_password == 'secret' }}"
