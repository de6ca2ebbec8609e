# shellcheck shell=bash disable=SC2154
# Modules on real hosts: what needs systemd, a package database, other users, or a file system that refuses. All of it on
# node3, which is as it was before at the end.

modules_on_hosts() {
  "$windlass" playbook -i "$inventory" tests/lab/modules.yml > "$log/modules.log" 2>&1 || { tail -40 "$log/modules.log"; return 1; }
  grep -q 'RUNNING HANDLER \[Reboot\]' "$log/modules.log" || { echo 'the host was not restarted'; return 1; }
  "$windlass" playbook -i "$inventory" tests/lab/modules.yml > "$log/modules2.log" 2>&1 || { tail -40 "$log/modules2.log"; return 1; }
  recap "$log/modules2.log" 'changed=0 +unreachable=0 +failed=0' || { grep -B3 '^changed:' "$log/modules2.log"; return 1; }
  "$windlass" playbook -i "$inventory" tests/lab/modules.yml --check > "$log/modules3.log" 2>&1 && recap "$log/modules3.log" 'changed=0 +unreachable=0 +failed=0'
}

modules_undone() {
  "$windlass" playbook -i "$inventory" tests/lab/modules_undone.yml > "$log/undone.log" 2>&1 || { tail -30 "$log/undone.log"; return 1; }
  ! on node3 'test -e /usr/bin/lab-hello || getent passwd deployer || findmnt /mnt/lab || crontab -l | grep count'
}

# A separate host in a separate lab: the engine adds networks and rules that the cluster's hosts must not have.
docker_on_a_host() {
  local packages=$cache/docker; mkdir -p "$packages"
  ls "$packages"/docker.io_*.deb >/dev/null 2>&1 || docker_packages "$packages" || return 1
  local WINDLASS_LAB_DIR=$log/docker code
  export WINDLASS_LAB_DIR
  "$windlass" lab up --nodes 1 --memory 1G --bridge wldocker --network 10.97.1.0/24 --mount "$packages:/srv/packages" &&
    "$windlass" lab inventory --format yaml > "$log/docker.yml" &&
    "$windlass" playbook -i "$log/docker.yml" tests/lab/docker.yml > "$log/docker.log" 2>&1
  code=$?
  [ $code = 0 ] || tail -30 "$log/docker.log"
  "$windlass" lab down && [ $code = 0 ]
}

# docker_packages FOLDER: the packages that Debian's docker.io needs in addition to the lab's base, and a static program
# for an image
docker_packages() {
  local names=(busybox-static containerd docker.io iptables libip6tc2 libnetfilter-conntrack3 libnfnetlink0 libnftnl11 runc tini)
  (cd "$1" && { apt-get download -q "${names[@]}" || { apt-get update -q && apt-get download -q "${names[@]}"; }; })
}

# fails MODULE ARGUMENTS PATTERN [OPTIONS...]: on node3, with exit code 2 and a message that has the pattern
fails() {
  local module=$1 arguments=$2 pattern=$3; shift 3
  "$windlass" adhoc -i "$inventory" node3 -m "$module" -a "$arguments" "$@" > "$log/fails" 2>&1
  local code=$?
  cut -c1-600 "$log/fails"
  [ $code = 2 ] && grep -qi -- "$pattern" "$log/fails" && ! grep -q panicked "$log/fails"
}

works() { # works MODULE ARGUMENTS [OPTIONS...]
  local module=$1 arguments=$2; shift 2
  "$windlass" adhoc -i "$inventory" node3 -m "$module" -a "$arguments" "$@" > "$log/works" 2>&1 || { cut -c1-900 "$log/works"; return 1; }
}

refusing_file_systems() {
  on node3 'mkdir -p /mnt/refusing && mount -t tmpfs -o size=1m tmpfs /mnt/refusing && cd /mnt/refusing && echo old > file && ln -s nowhere dangling && ln -s loop2 loop1 && ln -s loop1 loop2 && mount -o remount,ro /mnt/refusing' || return 1
  fails copy 'content=new dest=/mnt/refusing/file' 'read-only file system' &&
    fails lineinfile 'path=/mnt/refusing/file line=new' 'read-only file system' &&
    fails file 'path=/mnt/refusing/file state=absent' 'read-only file system' &&
    fails user 'name=somebody home=/mnt/refusing/home shell=/bin/sh create_home=true' 'read-only file system\|cannot create\|/mnt/refusing' &&
    [ "$(on node3 'mount -o remount,rw /mnt/refusing; cat /mnt/refusing/file; ls -A /mnt/refusing | wc -l')" = $'old\n4' ] &&
    fails slurp 'src=/mnt/refusing/loop1' 'too many levels of symbolic links' &&
    works stat 'path=/mnt/refusing/loop1' && works file 'path=/mnt/refusing/loop1 state=absent' &&
    works copy 'content=new dest=/mnt/refusing/dangling' &&
    [ "$(on node3 'cat /mnt/refusing/dangling; userdel somebody 2>/dev/null; umount /mnt/refusing; rmdir /mnt/refusing')" = new ]
}

immutable_file() {
  on node3 'mkdir -p /var/lib/fixed && echo old > /var/lib/fixed/file && chattr +i /var/lib/fixed/file' || return 1
  fails copy 'content=new dest=/var/lib/fixed/file' 'not permitted' &&
    fails file 'path=/var/lib/fixed state=absent' 'not permitted' &&
    fails file 'path=/var/lib/fixed/file mode=0600' 'not permitted' &&
    [ "$(on node3 'cat /var/lib/fixed/file; ls -A /var/lib/fixed')" = $'old\nfile' ] &&
    works file 'path=/var/lib/fixed/file attributes=-i' && works file 'path=/var/lib/fixed state=absent'
}

many_files() {
  on node3 'mkdir -p /var/tmp/many && cd /var/tmp/many && seq 100000 | xargs touch && printf "\377" > "$(printf "name\377")"' || return 1
  works find 'paths=/var/tmp/many patterns=9999* file_type=file' && grep -q '"matched": 11,' "$log/works" &&
    works find 'paths=/var/tmp/many patterns=name*' && grep -q '"matched": 1,' "$log/works" &&
    works copy 'src=/var/tmp/many/ dest=/var/tmp/copied/ remote_src=true' &&
    [ "$(on node3 'ls -A /var/tmp/copied | wc -l; cmp "/var/tmp/many/$(printf "name\377")" "/var/tmp/copied/$(printf "name\377")" && echo same')" = $'100001\nsame' ] &&
    works file 'path=/var/tmp/copied state=absent' && works file 'path=/var/tmp/many state=absent'
}

package_manager_killed() {
  # Unpacked and never configured, as if the power had failed in between: apt refuses everything until that is completed.
  on node3 'dpkg --unpack /opt/windlass-lab/apt/lab-hello_1.0_all.deb >/dev/null && dpkg-query -W -f "\${db:Status-Status}\n" lab-hello' | grep -q '^unpacked' || return 1
  works apt 'name=lab-service' && cat "$log/works" && grep -q 'interrupted' "$log/works" &&
    [ "$(on node3 'dpkg-query -W -f "\${db:Status-Status}\n" lab-hello lab-service; dpkg --audit')" = $'installed\ninstalled' ] &&
    works apt 'name=lab-service,lab-hello state=absent purge=true'
}

service_never_ready() {
  on node3 'printf "[Service]\nType=notify\nExecStart=/bin/sh -c \"echo waiting for godot; sleep infinity\"\nTimeoutStartSec=10\n" > /etc/systemd/system/lab-never.service && systemctl daemon-reload' || return 1
  fails service 'name=lab-never state=started' 'waiting for godot' &&
    works file 'path=/etc/systemd/system/lab-never.service state=absent' && works systemd 'daemon_reload=true'
}

past_its_time() {
  fails command 'sleep 600' 'time frame' --task-timeout 10 &&
    eventually 20 no_sleep
}

no_sleep() { ! on node3 'pgrep -f "^sleep 600$"'; }

# Through node1, by the options of ssh itself and by a file that ssh would read.
by_way_of_another_host() {
  local config=$log/ssh_config key known
  key=$("$windlass" lab inventory | sed -n 's/^ansible_ssh_private_key_file=//p')
  known=$("$windlass" lab inventory | grep -o 'UserKnownHostsFile=[^ "'"'"']*' | head -1 | cut -d= -f2)
  local one; one=$("$windlass" lab inventory | sed -n 's/^node1 .*ansible_host=\([^ ]*\).*/\1/p')
  printf 'Host *\n  User root\n  IdentityFile %s\n  UserKnownHostsFile %s\n' "$key" "$known" > "$config"
  "$windlass" adhoc -i "$inventory" node3 -m command -a 'sh -c "echo $SSH_CONNECTION"' -e "ansible_ssh_common_args='-F $config -J root@$one'" > "$log/jump" 2>&1
  cat "$log/jump"
  grep -q "^$one " "$log/jump"
}

other_ways_to_become() {
  works user 'name=root password=$5$windlass$6aXeeZunsMD0Q4US6qodndsmF7HDhKPYqF8bXqHra7D' || return 1
  works command 'id -un' -e ansible_user=ops -b --become-method su -e ansible_become_password=windlass && grep -qx root "$log/works" &&
    fails command 'id -un' password -e ansible_user=ops -b --become-method su -e ansible_become_password=wrong-one &&
    ! grep -q wrong-one "$log/fails" && on node3 'passwd -l root'
}
