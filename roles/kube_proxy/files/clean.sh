#!/bin/sh
# Removes what kube-proxy left on a host, in all its modes, and leaves kubelet's own chains alone. It prints what it removed.
set -eu

# clean PROGRAM TABLE: empties and deletes the chains of services, and the rules that lead to them, at once
clean() {
    "$1-save" -t "$2" 2>/dev/null | awk -v table="$2" '
        /^:KUBE-(SERVICES|SVC-|SEP-|EXT-|FW-|XLB-|SVL-|NODEPORTS|EXTERNAL-SERVICES|FORWARD|PROXY-|LOAD-BALANCER|NODE-PORT|SOURCE-RANGES|IPVS-)/ {
            name = substr($1, 2); chains[name] = 1; order[++count] = name
        }
        /^-A / {
            target = ""
            for (i = 3; i < NF; i++) if ($i == "-j" || $i == "-g") target = $(i + 1)
            if (target in chains && !($2 in chains)) { sub(/^-A/, "-D"); jumps[++jump] = $0 }
        }
        END {
            if (!count) exit
            print "*" table
            for (i = 1; i <= count; i++) print ":" order[i] " - [0:0]"
            for (i = 1; i <= jump; i++) print jumps[i]
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

if ip link show kube-ipvs0 >/dev/null 2>&1; then
    # The addresses of the services name the virtual servers.
    ip -o address show dev kube-ipvs0 | awk '{ sub("/.*", "", $4); print $4 }' > "$work"
    if command -v ipvsadm >/dev/null; then
        ipvsadm -S -n | awk '$1 == "-A" { print $2, $3 }' | while read -r protocol address; do
            host=${address%:*}
            host=${host#\[}
            if grep -qxF "${host%\]}" "$work"; then ipvsadm -D "$protocol" "$address"; fi
        done
    fi
    ip link delete kube-ipvs0
    echo kube-ipvs0
fi
if command -v ipset >/dev/null; then
    # Sets that are members of others go last.
    for turn in 1 2; do
        ipset list -n 2>/dev/null | grep '^KUBE-' | while read -r set; do
            if ipset destroy "$set" 2>/dev/null; then echo "ipset $set"; fi
        done
    done
fi
if command -v nft >/dev/null; then
    for family in ip ip6; do
        # nft of Debian 12 crashes at tables that newer ones wrote, but can empty them, and they have no effect then.
        if nft delete table $family kube-proxy 2>/dev/null; then
            echo "nftables $family"
        else
            nft flush table $family kube-proxy 2>/dev/null || true
        fi
    done
fi
