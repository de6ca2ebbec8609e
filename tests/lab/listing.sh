# Runs on a host and lists its state, for a comparison before a cluster and after its removal. Left out: what changes by itself, and what
# playbooks/reset.yml says that it leaves (downloaded archives, settings of the kernel), and what Windlass keeps itself.
# Left out as well: what the package manager and scripts of packages keep, targets of mounts of the lab, a mount point that kube-proxy's pod needs, the lock of iptables and of
# adduser, and a service of systemd that only waits.
LC_ALL=C
export LC_ALL

echo '# files'
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path '/var/log/*' -o -path '/var/lib/systemd/*' \
    -o -path '/var/tmp/systemd-private-*' -o -path /root/.ansible -o -path '/var/cache/*' -o -path '/etc/sysctl.d/*' -o -path /etc/sysctl.conf -o -path /var/lib/containerd -o -path /var/lib/docker -o -path /var/lib/etcd -o -path /var/lib/ucf -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /etc/alternatives -o -path /etc/ld.so.cache -o -path /var/www -o -path /usr/lib/modules \) -prune \
    -o -printf '%y %m %u:%g %p %l\n' | sort
find /etc -xdev -type f ! -path '/etc/sysctl*' ! -path /etc/ld.so.cache ! -path '/etc/*-' -exec sha256sum {} + | sort -k 2
find /tmp /run -xdev -maxdepth 3 \( -path '/run/systemd/*' -o -path '/run/user/*' -o -path '/run/log/*' -o -path '/run/udev/*' -o -path '/run/dbus/*' \
    -o -path '/run/credentials/*' -o -path /run/windlass -o -path /run/xtables.lock -o -path /run/adduser -o -path '/tmp/systemd-private-*' \) -prune -o -printf '%y %p\n' | sort
echo '# mounts'
awk '{ print $2, $3 }' /proc/mounts | grep -v -e '^/run/user/' -e '^/run/credentials/' -e binfmt_misc | sort
echo '# links, addresses, routes, rules'
ip -oneline link show | awk -F': ' '{ sub("@.*", "", $2); print $2 }' | sort
ip -oneline address show | awk '{ print $2, $3, $4 }' | grep -v ' fe80:' | sort
ip -4 route show table all | sed 's/ linkdown//' | sort
# Forwarding of IPv6, which stays, makes the kernel answer to the networks' anycast addresses.
ip -6 route show table all | grep -v -e fe80: -e ff00: -e '^local ::1' -e '^anycast ' | sort
ip rule | sort
ls /run/netns 2>/dev/null
echo '# packet filters'
# Chains without rules and tables that a listing created are no rules.
for save in iptables-save ip6tables-save iptables-legacy-save ip6tables-legacy-save; do
    $save 2>/dev/null | grep -e '^-A' -e '^:[^ ]* -' -e '^:[A-Z]* DROP' | sed "s/^/$save /; s/ \[[0-9:]*\]//" | sort
done
nft list tables 2>/dev/null | grep -v -e 'ip6\{0,1\} filter$' -e 'ip6\{0,1\} nat$' -e 'ip6\{0,1\} mangle$' -e 'ip6\{0,1\} raw$' | sort
ipset list -name 2>/dev/null | sort
echo '# units'
systemctl list-unit-files --no-legend --no-pager | awk '{ print $1, $2 }' | sort
systemctl list-units --all --plain --no-legend --no-pager --type=service,timer,socket,slice,mount,scope |
    awk '$3 != "inactive" { print $1, $3 }' | grep -v -e '^session-' -e '^user-' -e '^user@' -e '^run-user-' -e '^ssh@' -e '^run-credentials' -e '^systemd-networkd-wait-online' | sort
systemctl list-units --all --plain --no-legend --no-pager --state=failed,not-found | awk '{ print "failed or not found:", $1 }' | sort
echo '# processes'
ps -eo comm= | grep -v -x -e ps -e sh -e bash -e awk -e sort -e grep -e sshd -e 'sshd-session' -e systemd -e '(sd-pam)' -e 'executor-.*' | sort -u
