#!/bin/sh
# forget.sh PREFIX VOLUMES [ADDRESS]...: removes from etcd what the cluster of the archive, with these addresses, knew
# of its hosts, and prints what it removed and what else names them. It writes to etcd itself, because a component that
# once met the old objects would go to the first cluster, or act on its disks.
set -eu
umask 077
prefix=$1 volumes=$2
shift 2
set -a
# shellcheck source=/dev/null
. /etc/etcdctl.env
set +a
list=$(mktemp)
trap 'rm -f "$list"' EXIT

names() { etcdctl get --prefix "$prefix/$1" --keys-only | sed -n "s|^$prefix/||p"; }
# forget LABEL KEY [exact]: removes the key, or all that begin with it
forget() {
    option=--prefix
    [ -z "${3:-}" ] || option=
    # shellcheck disable=SC2086 # an option or nothing
    count=$(etcdctl del $option "$prefix/$2")
    [ "$count" = 0 ] || echo "removed: $count $1"
}
# forget_each REASON: removes the keys on its standard input
forget_each() {
    while read -r key; do
        etcdctl del "$prefix/$key" >/dev/null
        echo "removed: $key, $1"
    done
}
# with_words KIND WORD...: names of the objects of a kind that have one of the words. `fields` prints a key and a value
# on a line each.
with_words() {
    kind=$1
    shift
    [ $# -gt 0 ] || return 0
    printf '%s\n' "$@" >"$list"
    etcdctl get --prefix "$prefix/$kind/" -w fields | awk -v prefix="$prefix/" -v list="$list" '
        BEGIN { while ((getline word < list) > 0) words[++count] = word }
        /^"Key" : / { key = substr($3, 2 + length(prefix)); sub(/"$/, "", key); next }
        /^"Value" : / { for (i = 1; i <= count; i++) if (index($0, words[i])) { print key; next } }'
}

forget 'addresses of API servers' masterleases/
forget 'addresses of API servers' services/endpoints/default/kubernetes exact
forget 'addresses of API servers' endpointslices/default/kubernetes exact
forget nodes minions/
forget 'storage drivers of nodes' csinodes/
forget 'leases of nodes' leases/kube-node-lease/
forget 'leases of components' leases/kube-system/
forget 'requests for certificates' certificatesigningrequests/
forget 'tokens to join' secrets/kube-system/bootstrap-token-
forget 'certificates to join' secrets/kube-system/kubeadm-certs exact
forget 'attachments of volumes' volumeattachments/
# All of them were on the nodes of the archive.
forget pods pods/
# kubeadm and the roles write them again.
forget 'settings of kubeadm' configmaps/kube-system/kubeadm-config exact
forget 'settings of kube-proxy' configmaps/kube-system/kube-proxy exact
forget 'DaemonSet of kube-proxy' daemonsets/kube-system/kube-proxy exact
for kind in daemonsets deployments; do
    with_words "$kind" "$@" | grep -F "$kind/kube-system/" | forget_each 'which names the first cluster'
done
[ "$volumes" = true ] || names persistentvolumes/ | forget_each 'which leads to a disk of the first cluster'

for kind in configmaps cronjobs daemonsets deployments services/endpoints endpointslices jobs persistentvolumes \
    replicasets services/specs statefulsets mutatingwebhookconfigurations validatingwebhookconfigurations; do
    with_words "$kind" "$@" | sed 's/^/names the first cluster: /'
done | grep -v ': configmaps/kube-public/cluster-info$' || true
with_words services/specs LoadBalancer | sed 's/^/needs an address of its own: /'
