#!/bin/sh
# forget.sh PREFIX VOLUMES [ADDRESS]...: removes from etcd what the cluster of the archive, with these addresses, knew
# of its hosts, and prints what it removed and what else names them. It writes to etcd directly, before any API server
# runs. Otherwise a component that reads the old objects could connect to the first cluster, or change its disks.
set -eu
umask 077
prefix=$1 volumes=$2
shift 2
set -a
# shellcheck source=/dev/null
. "${ETCDCTL_SETTINGS:-/etc/etcdctl.env}"
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
# with_words KIND WORD...: names of the objects of a kind that have one of the words, and not as a part of a longer one:
# 10.0.0.1 is not in 10.0.0.10. `fields` prints a key and a value on a line each, quoted. Values are Protobuf: what
# follows a string may look like its end, so the strings are read by their lengths.
with_words() {
    kind=$1
    shift
    [ $# -gt 0 ] || return 0
    printf '%s\n' "$@" >"$list"
    etcdctl get --prefix "$prefix/$kind/" -w fields | LC_ALL=C awk -v prefix="$prefix/" -v list="$list" "$search"
}
# shellcheck disable=SC2016 # the program is awk's
search='
BEGIN {
    while ((getline word < list) > 0) words[++count] = word
    for (i = 1; i < 256; i++) ord[sprintf("%c", i)] = i
    for (i = 0; i < 16; i++) hex[substr("0123456789abcdef", i + 1, 1)] = i
    split("a 7 b 8 t 9 n 10 v 11 f 12 r 13", pairs, " ")
    for (i = 1; i < 14; i += 2) escapes[pairs[i]] = pairs[i + 1]
}
/^"Key" : / { key = substr($3, 2 + length(prefix)); sub(/"$/, "", key); next }
/^"Value" : / {
    for (i = 1; i <= count && !index($0, words[i]); i++) continue
    if (i > count) next
    decode(substr($0, 12, length($0) - 12))
    found = 0
    # Objects of custom resources are JSON.
    if (bytes[1] == 107 && bytes[2] == 56 && bytes[3] == 115 && bytes[4] == 0) visit(5, size + 1)
    else look(1, size + 1)
    if (found) print key
}
function number(text, value) {
    for (value = 0; text != ""; text = substr(text, 2)) value = value * 16 + hex[substr(text, 1, 1)]
    return value
}
# The bytes of a string in quotes of Go.
function decode(text, i, end, c, rune) {
    size = 0
    end = length(text)
    for (i = 1; i <= end; i++) {
        c = substr(text, i, 1)
        if (c != "\\") { bytes[++size] = ord[c]; continue }
        c = substr(text, ++i, 1)
        if (c == "x") { bytes[++size] = number(substr(text, i + 1, 2)); i += 2 }
        else if (c == "u") {
            rune = number(substr(text, i + 1, 4)); i += 4
            if (rune >= 2048) { bytes[++size] = 224 + int(rune / 4096); bytes[++size] = 128 + int(rune / 64) % 64 }
            else bytes[++size] = 192 + int(rune / 64)
            bytes[++size] = 128 + rune % 64
        } else if (c == "U") {
            rune = number(substr(text, i + 1, 8)); i += 8
            bytes[++size] = 240 + int(rune / 262144); bytes[++size] = 128 + int(rune / 4096) % 64
            bytes[++size] = 128 + int(rune / 64) % 64; bytes[++size] = 128 + rune % 64
        } else bytes[++size] = (c in escapes) ? escapes[c] : ord[c]
    }
}
# Reads the field of a message at `at`, and sets `next_at`, `kind_of`, and where its content begins. Returns 0 if there
# is none.
function field(at, end, tag, length_of) {
    tag = varint(at, end)
    kind_of = tag % 8
    if (tag < 8) return 0
    at = next_at
    if (kind_of == 0) return varint(at, end) >= 0
    if (kind_of == 1) next_at = at + 8
    else if (kind_of == 5) next_at = at + 4
    else if (kind_of == 2) {
        length_of = varint(at, end)
        if (length_of < 0) return 0
        content = next_at
        next_at = content + length_of
    } else return 0
    return next_at <= end
}
function varint(at, end, value, factor) {
    value = 0
    for (factor = 1; at < end && factor < 2 ^ 50; factor *= 128) {
        value += bytes[at] % 128 * factor
        if (bytes[at++] < 128) { next_at = at; return value }
    }
    return -1
}
function is_message(at, end) {
    if (at == end) return 0
    for (; at < end; at = next_at) if (!field(at, end)) return 0
    return 1
}
function is_text(at, end) {
    if (bytes[at] == 10) return 0
    for (; at < end; at++) if (bytes[at] < 32 && bytes[at] != 9 && bytes[at] != 10 && bytes[at] != 13) return 0
    return 1
}
function visit(at, end, from, to) {
    for (; at < end && !found; at = to) {
        if (!field(at, end)) { look(at, end); return }
        to = next_at
        if (kind_of != 2) continue
        from = content
        if (!is_text(from, to) && is_message(from, to)) visit(from, to); else look(from, to)
    }
}
# Looks for the words in a string.
function look(at, end, text, part, i) {
    text = part = ""
    for (; at < end; at++) {
        part = part (bytes[at] >= 32 && bytes[at] < 127 ? sprintf("%c", bytes[at]) : " ")
        if (length(part) > 999) { text = text part; part = "" }
    }
    text = text part
    for (i = 1; i <= count && !found; i++) found = has(" " text " ", words[i])
}
function has(text, word, at, before, after, part) {
    # Any address may end at a hyphen, as in a range, and one of IPv4 at a colon.
    part = word ~ /^[0-9.]+$/ ? "[0-9A-Za-z_]" : word ~ /:/ ? "[0-9A-Za-z_:]" : "[0-9A-Za-z_-]"
    while ((at = index(text, word)) > 0) {
        before = substr(text, at - 1, 1)
        after = substr(text, at + length(word), 2)
        if (before !~ part && before != "." && substr(after, 1, 1) !~ part && after !~ /^[.][0-9A-Za-z]/) return 1
        text = substr(text, at + 1)
    }
    return 0
}'

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
