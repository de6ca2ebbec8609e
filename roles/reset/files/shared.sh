#!/bin/sh
# shared.sh KUBECONFIG [ROOT]: removes what the cluster has put into folders that others use too, such as podman, and
# then the folders that are empty. With `yes` for KUBECONFIG it removes root's kubeconfig of the cluster, and puts back
# the one from before it. Prints what it removes.
set -eu
kubeconfig=$1 root=${2:-}

gone() {
    for path; do
        [ -e "$path" ] || [ -L "$path" ] || continue
        rm -rf "$path"
        echo "removed ${path#"$root"}"
    done
}
packaged() {
    { command -v dpkg-query && dpkg-query -S "$1"; } >/dev/null 2>&1 || { command -v rpm &&
        rpm -qf "$1"; } >/dev/null 2>&1
}
# Names of the networks that still have a configuration, and so an owner.
networks() {
    cat "$root"/etc/cni/net.d/*.conf "$root"/etc/cni/net.d/*.conflist "$root"/etc/cni/net.d/*.json 2>/dev/null |
        tr ',{}' '\n\n\n' | sed -n 's/^[[:space:]]*"name"[[:space:]]*:[[:space:]]*"\([^"]*\)".*/\1/p' | sort -u
}
owned() { # owned FILE: whether it is of such a network, by its name NETWORK or NETWORK-CONTAINER-INTERFACE
    printf '%s\n' "$others" | awk -v name="${1##*/}" \
        '$0 != "" && (name == $0 || index(name, $0 "-") == 1) { found = 1 } END { exit !found }'
}

# An interrupted migration of the network has left a configuration that runtimes take before that of the next cluster,
# and the former value of the reverse path filter.
gone "$root"/etc/cni/net.d/00-windlass-migration.*
for file in "$root/run/kube-network-migration" "$root/run/kube-pod-routes-both"; do
    [ -e "$file" ] || continue
    cat "$file" >"$root/proc/sys/net/ipv4/conf/all/rp_filter"
    gone "$file"
done

for program in LICENSE README.md bandwidth bridge calico calico-ipam cilium-cni dhcp dummy firewall flannel \
    host-device host-local \
    ipvlan kube-ovn loopback macvlan portmap ptp sbr static tap tuning vlan vrf; do
    [ ! -e "$root/opt/cni/bin/$program" ] || packaged "$root/opt/cni/bin/$program" || gone "$root/opt/cni/bin/$program"
done
others=$(networks)
for file in "$root"/var/lib/cni/networks/* "$root"/var/lib/cni/results/* "$root"/var/lib/cni/cache/*/*; do
    owned "$file" || gone "$file"
done
if [ "$kubeconfig" = yes ]; then
    file=$root/root/.kube/config
    if [ -e "$file" ] && [ "$(grep -c '^ *- cluster:' "$file")" = 1 ] &&
        grep -q '^ *user: kubernetes-admin' "$file"; then
        gone "$file"
    fi
    if [ ! -e "$file" ] && [ -e "$file.before-windlass" ]; then
        mv "$file.before-windlass" "$file"
        echo "restored ${file#"$root"}"
    fi
    gone "$root/root/.kube/cache" "$root/root/.kube/http-cache"
fi
for folder in var/lib/cni/networks var/lib/cni/results var/lib/cni/cache/results var/lib/cni/cache var/lib/cni \
    etc/cni/net.d etc/cni opt/cni/bin opt/cni root/.kube; do
    [ ! -d "$root/$folder" ] || rmdir "$root/$folder" 2>/dev/null || continue
done
