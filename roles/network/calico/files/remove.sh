#!/bin/sh
# Removes what Calico leaves on a host: RANGE of pod addresses, RANGE of IPv6. Prints `removed` if there was anything.
for place in /etc/cni/net.d/10-calico.conflist /var/lib/calico /run/calico /etc/NetworkManager/conf.d/calico.conf; do
    [ ! -e "$place" ] || found=yes
done
[ -n "${found:-}" ] || exit 0

# Programs of eBPF first, since they hold on to interfaces.
for link in $(ls /sys/class/net); do
    for side in ingress egress; do
        ! tc filter show dev "$link" "$side" 2>/dev/null | grep -q cali_ || tc qdisc delete dev "$link" clsact
    done
done
rm -rf /sys/fs/bpf/tcx /sys/fs/bpf/tc/globals/cali_* /sys/fs/bpf/calico /sys/fs/bpf/ctlb
umount --lazy /run/calico/cgroup 2>/dev/null

for link in $(ls /sys/class/net | grep -E \
    '^(cali.*|vxlan\.calico|vxlan-v6\.calico|wireguard\.cali|wg-v6\.cali|bpfin\.cali|bpfout\.cali)$'); do
    ip link delete "$link" 2>/dev/null
done
# The kernel keeps this one as long as it has the module.
if ip link show tunl0 >/dev/null 2>&1; then
    ip address flush dev tunl0
    ip link set tunl0 down
    modprobe -r ipip 2>/dev/null
fi

for family in -4 -6; do
    range=$1
    [ $family = -4 ] || range=$2
    ip $family -o route show table all root "$range" 2>/dev/null | grep -v ' table local' | while read -r route; do
        # Flags such as `linkdown` are not part of a route.
        ip $family route delete $(echo "$route" |
            sed -E 's/ (linkdown|dead|onlink|pref [a-z]+|error [0-9-]+)//g') 2>/dev/null
    done
    while ip $family rule delete priority 99 2>/dev/null; do :; done
done

# Chains, jumps to them, and single rules, which have a comment; one transaction for each table.
for program in iptables ip6tables iptables-legacy ip6tables-legacy; do
    command -v $program-save >/dev/null || continue
    case $program in
        iptables-legacy) [ -s /proc/net/ip_tables_names ] || continue ;;
        ip6tables-legacy) [ -s /proc/net/ip6_tables_names ] || continue ;;
    esac
    $program-save 2>/dev/null | awk '
        /^\*/ { print; chains = "" }
        /^:cali-/ { chain = substr($1, 2); print "-F " chain; chains = chains "-X " chain "\n" }
        /^-A cali-/ { next }
        /^-A .*(cali-|cali:)/ { sub(/^-A/, "-D"); print }
        /^COMMIT/ { printf "%s", chains; print }' | $program-restore --wait --noflush
done
# nft of Debian 12 crashes at tables that newer ones wrote, but can empty them, and they have no effect then.
for family in ip ip6; do
    nft delete table $family calico 2>/dev/null || nft flush table $family calico 2>/dev/null
done
if command -v ipset >/dev/null; then
    for set in $(ipset list -name | grep '^cali[46]'); do
        ipset destroy "$set"
    done
fi

rm -rf /etc/cni/net.d/10-calico.conflist /etc/cni/net.d/calico-kubeconfig /opt/cni/bin/calico /opt/cni/bin/calico-ipam \
    /var/lib/calico /run/calico /run/nodeagent /var/log/calico /etc/NetworkManager/conf.d/calico.conf
systemctl try-reload-or-restart NetworkManager.service 2>/dev/null
echo removed
