#!/bin/sh
# Removes the rules, sets of addresses and tunnels that Kube-OVN left on a host. It prints what it removed.
set -eu
[ -e /etc/origin/ovn ] || [ -e /opt/cni/bin/kube-ovn ] || exit 0

# clean PROGRAM TABLE: deletes, in one transaction, OVN's chains and the rules that lead to them or use its sets
clean() {
    "$1-save" -t "$2" 2>/dev/null | awk -v table="$2" '
        /^:OVN-/ { order[++count] = substr($1, 2) }
        /^-A OVN-/ { next }
        /^-A .*(-j OVN-|--match-set ovn[46]0|--dport 6081 -j MARK)/ { sub(/^-A/, "-D"); rules[++rule] = $0 }
        END {
            if (!count && !rule) exit
            print "*" table
            for (i = 1; i <= count; i++) print ":" order[i] " - [0:0]"
            for (i = 1; i <= rule; i++) print rules[i]
            for (i = 1; i <= count; i++) print "-X " order[i]
            print "COMMIT"
        }' > "$work"
    [ -s "$work" ] || return 0
    "$1-restore" --noflush < "$work"
    echo "$1 $2"
}

work=$(mktemp)
trap 'rm -f "$work"' EXIT
for program in iptables ip6tables; do
    command -v "$program-save" >/dev/null || continue
    for table in filter nat mangle; do clean "$program" "$table"; done
done
if command -v ipset >/dev/null; then
    ipset list -n 2>/dev/null | grep -E '^ovn[46]0' | while read -r set; do
        if ipset destroy "$set" 2>/dev/null; then echo "ipset $set"; fi
    done
fi
# Interfaces of Open vSwitch itself stay if its pods could not delete them.
for link in $(ls /sys/class/net | grep -E '^(ovn0|mirror0|genev_sys_6081|vxlan_sys_4789|stt_sys_7471)$'); do
    if ip link delete "$link" 2>/dev/null; then echo "$link"; fi
done
echo removed
