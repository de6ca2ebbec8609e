#!/bin/sh
# Removes what Cilium's agent left on a host: interfaces, routes, rules, sets and programs of the kernel. It prints
# `removed` if Cilium was there.
set -eu
[ -e /etc/cni/net.d/05-cilium.conflist ] || [ -e /run/cilium ] || [ -e /sys/fs/bpf/cilium ] ||
    [ -e /sys/class/net/cilium_host ] || exit 0

for link in $(ls /sys/class/net | grep -Ex 'cilium_[a-z0-9]+|lxc_health|lxc[0-9a-f]{12}'); do
    # The second end of a pair goes with the first.
    ip link delete "$link" 2>/dev/null || true
done

# Rules and tables of IPsec, of VTEPs and of the proxy. Others may use the same priorities, and the tables 200 and 202.
# The rule of the kernel for local addresses, which Cilium moves to 100, goes back to 0.
for family in -4 -6; do
    for rule in 1:200 112:202 9:2004 10:2005; do
        priority=${rule%:*} table=${rule#*:}
        while ip $family rule show 2>/dev/null | grep -Eq "^$priority:.* lookup $table( |\$)"; do
            ip $family rule delete pref "$priority" lookup "$table"
        done
        if [ "$table" -lt 2000 ]; then whose='proto kernel'; else whose=; fi
        ip $family route flush table "$table" $whose 2>/dev/null || true
    done
    if ip $family rule show 2>/dev/null | grep -q '^100:.*lookup local'; then
        ip $family rule show | grep -q '^0:.*lookup local' || ip $family rule add pref 0 lookup local
        ip $family rule delete pref 100 lookup local
    fi
done

# Routes to the pods of other nodes (auto-direct-node-routes). They are marked as the kernel's, whose own have no
# gateway.
for family in -4 -6; do
    ip $family route show proto kernel 2>/dev/null | sed -n 's/^\([0-9a-f.:/]* via [0-9a-f.:]* dev [^ ]*\).*/\1/p' |
        while read -r route; do
        ip $family route delete $route proto kernel || true
    done
done

# clean PROGRAM TABLE: deletes Cilium's chains and the rules that lead to them, in one transaction.
clean() {
    "$1-save" -t "$2" 2>/dev/null | awk -v table="$2" '
        /^:(OLD_)?CILIUM_/ { name = substr($1, 2); chains[name] = 1; order[++count] = name }
        /^-A / {
            for (i = 3; i < NF; i++)
                if (($i == "-j" || $i == "-g") && $(i + 1) in chains && !($2 in chains)) {
                    sub(/^-A/, "-D")
                    jumps[++jump] = $0
                }
        }
        END {
            if (!count) exit
            print "*" table
            for (i = 1; i <= count; i++) print ":" order[i] " - [0:0]"
            for (i = 1; i <= jump; i++) print jumps[i]
            for (i = 1; i <= count; i++) print "-X " order[i]
            print "COMMIT"
        }' > "$work"
    if [ -s "$work" ]; then "$1-restore" --noflush < "$work"; fi
}
work=$(mktemp)
trap 'rm -f "$work"' EXIT
for program in iptables ip6tables; do
    command -v "$program-save" >/dev/null || continue
    for table in filter nat mangle raw; do clean "$program" "$table"; done
done
if command -v ipset >/dev/null; then
    ipset list -n 2>/dev/null | grep '^cilium_' | while read -r set; do ipset destroy "$set" || true; done
fi

# Programs at interfaces and control groups are detached with the links that the agent keeps in its file system; older
# kernels have filters.
if command -v tc >/dev/null; then
    find='s/^filter .* pref \([0-9]*\) bpf .* handle \(0x[0-9a-f]*\) .*cil_.*/\1 \2/p'
    for link in $(ls /sys/class/net); do
        for side in ingress egress; do
            tc filter show dev "$link" $side 2>/dev/null | sed -n "$find" | while read -r priority handle; do
                tc filter delete dev "$link" $side pref "$priority" handle "$handle" bpf
            done
        done
    done
fi
if command -v bpftool >/dev/null && [ -d /run/cilium/cgroupv2 ]; then
    bpftool cgroup show /run/cilium/cgroupv2 2>/dev/null | awk '/ cil_sock/ { print $1, $2 }' |
        while read -r program kind; do
        bpftool cgroup detach /run/cilium/cgroupv2 "$kind" id "$program" || true
    done
fi
rm -rf /sys/fs/bpf/cilium /sys/fs/bpf/tc/globals/cilium_*
if mountpoint -q /run/cilium/cgroupv2; then umount /run/cilium/cgroupv2; fi

# Configurations of other networks that Cilium renamed.
for file in /etc/cni/net.d/*.cilium_bak; do
    [ -e "$file" ] || continue
    if [ -e "${file%.cilium_bak}" ]; then rm "$file"; else mv "$file" "${file%.cilium_bak}"; fi
done
echo removed
