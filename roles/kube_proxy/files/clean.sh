#!/bin/sh
# clean.sh [MODE ADDRESS]: removes what kube-proxy left on a host, and leaves kubelet's own chains alone. It prints what
# it removed. With MODE, iptables or ipvs, what kube-proxy uses in this mode stays, and nothing is removed before the
# kube-proxy whose metrics are at ADDRESS reports it: at its start, it removes only tables of nftables.
set -eu

mode=${1:-}
case $mode in
    '')
        everywhere='SERVICES|SVC-|SEP-|EXT-|FW-|XLB-|SVL-|NODEPORTS|EXTERNAL-SERVICES|FORWARD|PROXY-|LOAD-BALANCER|NODE-PORT|SOURCE-RANGES|IPVS-'
        filter=$everywhere
        ;;
    iptables)
        everywhere='LOAD-BALANCER|NODE-PORT|SOURCE-RANGES|IPVS-'
        filter=$everywhere
        ;;
    ipvs)
        everywhere='SVC-|SEP-|EXT-|FW-|XLB-|SVL-|NODEPORTS|PROXY-CANARY'
        filter="$everywhere|SERVICES|EXTERNAL-SERVICES"
        ;;
    *) exit 0 ;;
esac

# left: whether the host has anything of the other mode
left() {
    if [ "$mode" = iptables ]; then
        ip link show kube-ipvs0 >/dev/null 2>&1 || ipset list -n 2>/dev/null | grep -q '^KUBE-'
    else
        for program in iptables ip6tables; do
            ! "$program-save" 2>/dev/null | grep -qE '^:KUBE-(SVC-|SEP-|EXTERNAL-SERVICES )' || return 0
        done
        return 1
    fi
}

if [ -n "$mode" ]; then
    left || exit 0
    for second in 1 2 3 4 5 6 7 8 9 10; do
        [ "$(curl -s --noproxy '*' -m 2 "http://$2/proxyMode")" != "$mode" ] || break
        [ "$second" -lt 10 ] || exit 0
        sleep 1
    done
fi

# clean PROGRAM TABLE: deletes, in one transaction, the chains of services and the rules that lead to them or use their
# sets
clean() {
    chains=$everywhere
    [ "$2" != filter ] || chains=$filter
    "$1-save" -t "$2" 2>/dev/null | awk -v table="$2" -v mode="$mode" -v pattern="^:KUBE-($chains)" '
        $0 ~ pattern { name = substr($1, 2); chains[name] = 1; order[++count] = name }
        /^-A / {
            target = ""
            for (i = 3; i < NF; i++) if ($i == "-j" || $i == "-g") target = $(i + 1)
            if ((target in chains || mode != "ipvs" && / --match-set KUBE-/) && !($2 in chains)) {
                sub(/^-A/, "-D")
                jumps[++jump] = $0
            }
        }
        END {
            if (!count && !jump) exit
            print "*" table
            for (i = 1; i <= count; i++) print ":" order[i] " - [0:0]"
            for (i = 1; i <= jump; i++) print jumps[i]
            for (i = 1; i <= count; i++) print "-X " order[i]
            print "COMMIT"
        }' > "$work"
    [ -s "$work" ] || return 0
    "$1-restore" --noflush < "$work" || return 1
    echo "$1 $2"
}

work=$(mktemp)
trap 'rm -f "$work" "$work.ports"' EXIT
for program in iptables ip6tables; do
    command -v "$program-save" >/dev/null || continue
    for table in filter nat mangle; do
        # A kube-proxy that runs may have changed the rules meanwhile.
        clean "$program" "$table" || { sleep 1; clean "$program" "$table"; }
    done
done
[ "$mode" != ipvs ] || exit 0

if ip link show kube-ipvs0 >/dev/null 2>&1; then
    # The addresses of the services name the virtual servers, and sets name the node ports, whose servers have addresses
    # of the host.
    ip -o address show dev kube-ipvs0 | awk '{ sub("/.*", "", $4); print $4 }' > "$work"
    for set in KUBE-NODE-PORT-TCP KUBE-NODE-PORT-UDP KUBE-NODE-PORT-SCTP-HASH; do
        ipset list "$set" 2>/dev/null | sed -nE '1,/^Members:/d; s/^.*sctp:([0-9]+)$/\1/; s/^([0-9]+)$/\1/p'
    done > "$work.ports"
    if command -v ipvsadm >/dev/null; then
        ipvsadm -S -n | awk '$1 == "-A" { print $2, $3 }' | while read -r protocol address; do
            host=${address%:*}
            host=${host#\[}
            if grep -qxF "${host%\]}" "$work" || grep -qxF "${address##*:}" "$work.ports"; then
                ipvsadm -D "$protocol" "$address"; fi
        done
    else
        echo "virtual servers stay, because ipvsadm is missing"
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
[ -z "$mode" ] || exit 0
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
