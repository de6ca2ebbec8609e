#!/bin/sh
# Removes what kube-router left on a host: rules, sets of addresses, services of IPVS, routes, interfaces. It prints
# what it removed.
set -eu
[ -e /etc/cni/net.d/10-kuberouter.conflist ] || [ -e /var/lib/kube-router ] || exit 0

# clean PROGRAM TABLE: deletes, in one transaction, kube-router's chains and the rules that lead to them or use its sets
clean() {
    "$1-save" -t "$2" 2>/dev/null | awk -v table="$2" '
        /^:KUBE-(ROUTER|POD-FW|NWPLCY)-/ { order[++count] = substr($1, 2) }
        /^-A KUBE-(ROUTER|POD-FW|NWPLCY)-/ { next }
        /^-A .*(-j KUBE-(ROUTER|POD-FW|NWPLCY)-|--match-set (inet6:)?kube-router-|--vmethod MASQ)/ {
            sub(/^-A/, "-D"); rules[++rule] = $0
        }
        /^-A FORWARD .*--comment "allow (outbound traffic from|inbound traffic to) pods" -j ACCEPT$/ ||
        /^-A FORWARD .*--comment "allow outbound node port traffic on node interface with .*" -j ACCEPT$/ {
            sub(/^-A/, "-D"); rules[++rule] = $0
        }
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
    ipset list -n 2>/dev/null | grep -E '^(inet6:)?(kube-router-|KUBE-(SRC|DST)-)' | while read -r set; do
        if ipset destroy "$set" 2>/dev/null; then echo "ipset $set"; fi
    done
fi

if ip link show kube-dummy-if >/dev/null 2>&1 && command -v ipvsadm >/dev/null; then
    # The addresses of the services name the virtual servers.
    ip -o address show dev kube-dummy-if | awk '{ sub("/.*", "", $4); print $4 }' > "$work"
    ipvsadm -S -n | awk '$1 == "-A" { print $2, $3 }' | while read -r protocol address; do
        host=${address%:*}
        host=${host#\[}
        if grep -qxF "${host%\]}" "$work"; then ipvsadm -D "$protocol" "$address"; fi
    done
fi

# Tables of routes by number or name: to tunnels, of services with direct return, of external addresses. 17 marks
# learned routes.
for family in -4 -6; do
    ip $family rule list |
        sed -nE 's/^[0-9]+:[[:space:]]*(.* lookup (77|78|79|kube-router|kube-router-dsr|external_ip)) *$/\1/p' |
        while read -r rule; do
        # shellcheck disable=SC2086
        if ip $family rule delete $rule; then echo "rule $rule"; fi
    done
    for table in 77 78 79; do ip $family route flush table $table 2>/dev/null || true; done
    ip $family route flush proto 17 2>/dev/null || true
done

for link in $(ls /sys/class/net | grep -E '^(kube-bridge|kube-dummy-if|tun-[0-9a-f]{11})$'); do
    ip link delete "$link"
    echo "$link"
done
echo removed
