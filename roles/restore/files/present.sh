#!/bin/sh
# present.sh NAMESPACE: prints what the running cluster has, a line each: `release MAJOR.MINOR`, `served KIND [GROUP]`, `object KIND[.GROUP]/NAME`
# of the namespace, `service NAMESPACE/NAME ADDRESSES AND NODE PORTS`, `volume NAME PHASE [CLAIM]`, and `namespace`.
set -eu
list() { kubectl api-resources --namespaced=true --verbs=list,create "$@" 2>/dev/null || true; }

kubectl get --raw /version | tr -d '\n' | sed -nE 's/.*"gitVersion": *"v([0-9]+\.[0-9]+).*/release \1\n/p'
list --no-headers | awk '{ print "served", $NF, ($(NF - 2) ~ /\// ? substr($(NF - 2), 1, index($(NF - 2), "/") - 1) : "") }' |
    sed 's/ *$//'
kubectl get services --all-namespaces --output=jsonpath='{range .items[*]}service {.metadata.namespace}/{.metadata.name} {.spec.clusterIP} {.spec.clusterIPs[*]} {.spec.ports[*].nodePort}{"\n"}{end}'
kubectl get persistentvolumes --output=jsonpath='{range .items[*]}volume {.metadata.name} {.status.phase} {.spec.claimRef.namespace}/{.spec.claimRef.name}{"\n"}{end}'
kubectl get namespace "$1" --output=name >/dev/null 2>&1 || exit 0
echo namespace
kinds=$(list --output=name | grep -Ev '^(events|leases)(\.|$)|\.(extensions|metrics\.k8s\.io)$' | paste -sd,)
kubectl get "$kinds" --namespace="$1" --output=name --ignore-not-found | sed 's/^/object /'
