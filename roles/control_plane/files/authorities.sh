#!/bin/sh
# authorities.sh CONTENT SETTINGS CERTIFICATES: puts authorities and keys of an opened archive back, and removes
# certificates and kubeconfigs of other authorities, which kubeadm would refuse.
set -eu
umask 077

mkdir -p "$3"
# The authority of etcd exists if its members run in pods.
for name in ca.crt ca.key front-proxy-ca.crt front-proxy-ca.key sa.key sa.pub etcd/ca.crt etcd/ca.key; do
    [ -f "$1/pki/$name" ] || continue
    mode=0600
    case $name in *.crt | *.pub) mode=0644 ;; esac
    cmp -s "$1/pki/$name" "$3/$name" || { install -D -m "$mode" "$1/pki/$name" "$3/$name"; echo "restored $name"; }
done
# Says how stored objects are encrypted; without it, a later change of the key would not be noticed.
[ ! -f "$1/config/encryption.applied" ] || install -m 0600 "$1/config/encryption.applied" "$2/encryption.applied"

for certificate in "$3"/*.crt "$3"/etcd/*.crt; do
    [ -e "$certificate" ] || continue
    case ${certificate#"$3/"} in
        ca.crt | front-proxy-ca.crt | etcd/ca.crt) continue ;;
        front-proxy-*) authority=$3/front-proxy-ca.crt ;;
        etcd/* | apiserver-etcd-client.crt) authority=$3/etcd/ca.crt ;;
        *) authority=$3/ca.crt ;;
    esac
    openssl verify -partial_chain -CAfile "$authority" "$certificate" >/dev/null 2>&1 && continue
    rm -f "$certificate" "${certificate%.crt}.key"
    echo "removed $certificate"
done
authority=$(base64 -w 0 "$3/ca.crt")
for name in admin super-admin controller-manager scheduler kubelet; do
    [ -e "$2/$name.conf" ] || continue
    grep -qF "certificate-authority-data: $authority" "$2/$name.conf" && continue
    rm -f "$2/$name.conf"
    [ "$name" != kubelet ] || rm -rf /var/lib/kubelet/pki
    echo "removed $2/$name.conf"
done
