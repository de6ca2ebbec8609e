#!/bin/sh
# kept.sh MANIFESTS KUBELET ENVIRONMENT...: prints a line for each setting that the running cluster cannot change, or
# only with care, as the host's static pods (in the folder MANIFESTS), its kubelet (file KUBELET) and its members of
# etcd (files ENVIRONMENT) have it:
#   services RANGE[,RANGE]   ranges of services
#   pods RANGE[,RANGE]       ranges of pods
#   api ADDRESS              the address that the API server advertises
#   node ADDRESS[,ADDRESS]   the addresses that kubelet reports
#   member ADDRESS           the address at which the other members know this one
#   network-migration        playbooks/migrate_network.yml has begun to replace the network
manifests=$1 kubelet=$2
shift 2

sed -n 's/.*--service-cluster-ip-range=\([0-9A-Fa-f:.,/]*\).*/services \1/p' "$manifests/kube-apiserver.yaml" \
    2>/dev/null
sed -n 's/.*--advertise-address=\([0-9A-Fa-f:.]*\)$/api \1/p' "$manifests/kube-apiserver.yaml" 2>/dev/null
sed -n 's/^KUBELET_EXTRA_ARGS="--node-ip=\([0-9A-Fa-f:.,]*\) .*/node \1/p' "$kubelet" 2>/dev/null
sed -n 's/.*--cluster-cidr=\([0-9A-Fa-f:.,/]*\).*/pods \1/p' "$manifests/kube-controller-manager.yaml" 2>/dev/null
sed -n 's/.*--initial-advertise-peer-urls=https:\/\/\[\{0,1\}\([0-9A-Za-z:.-]*\)\]\{0,1\}:[0-9]*$/member \1/p' \
    "$manifests/etcd.yaml" 2>/dev/null
for file; do
  sed -n 's/^ETCD_INITIAL_ADVERTISE_PEER_URLS=https:\/\/\[\{0,1\}\([0-9A-Za-z:.-]*\)\]\{0,1\}:[0-9]*$/member \1/p' \
      "$file" 2>/dev/null
done
[ ! -e "${kubelet%/*}/network-migration" ] || echo network-migration
exit 0
