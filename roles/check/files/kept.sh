#!/bin/sh
# kept.sh MANIFESTS ENVIRONMENT...: prints a line for each setting that the running cluster cannot change, as the host's static pods (in the folder
# MANIFESTS) and its members of etcd (files ENVIRONMENT) have it:
#   services RANGE[,RANGE]   ranges of services
#   pods RANGE[,RANGE]       ranges of pods
#   member ADDRESS           the address at which the other members know this one
manifests=$1
shift

sed -n 's/.*--service-cluster-ip-range=\([0-9A-Fa-f:.,/]*\).*/services \1/p' "$manifests/kube-apiserver.yaml" 2>/dev/null
sed -n 's/.*--cluster-cidr=\([0-9A-Fa-f:.,/]*\).*/pods \1/p' "$manifests/kube-controller-manager.yaml" 2>/dev/null
sed -n 's/.*--initial-advertise-peer-urls=https:\/\/\[\{0,1\}\([0-9A-Za-z:.-]*\)\]\{0,1\}:[0-9]*$/member \1/p' "$manifests/etcd.yaml" 2>/dev/null
for file; do
  sed -n 's/^ETCD_INITIAL_ADVERTISE_PEER_URLS=https:\/\/\[\{0,1\}\([0-9A-Za-z:.-]*\)\]\{0,1\}:[0-9]*$/member \1/p' "$file" 2>/dev/null
done
exit 0
