#!/bin/sh
# present.sh NAMESPACE: prints what the running cluster has, a line each: `release MAJOR.MINOR`, `served KIND [GROUP]`,
# `object KIND[.GROUP]/NAME` of the namespace, `service NAMESPACE/NAME ADDRESSES AND NODE PORTS`, `volume NAME PHASE
# [CLAIM]`, and `namespace`.
set -eu
# kubectl fails where the server of one API is down, and prints the kinds of the others.
kinds=$(kubectl api-resources --namespaced=true --verbs=list,create --no-headers 2>/dev/null |
    awk '{ group = $(NF - 2) ~ /\// ? substr($(NF - 2), 1, index($(NF - 2), "/") - 1) : ""; print $NF, $1 (group == "" ? "" : ".") group, group }')
[ -n "$kinds" ] || { echo "The API server names no kinds of objects." >&2; exit 1; }
# Anything that cannot be read ends the script. Otherwise it would seem to be missing, and would be overwritten.
found=$(kubectl get namespace "$1" --ignore-not-found --output=name)
objects=
if [ -n "$found" ]; then
    names=$(echo "$kinds" | cut -d ' ' -f 2 |
        grep -Ev '^(events|events\.events\.k8s\.io|leases\.coordination\.k8s\.io)$|\.(extensions|metrics\.k8s\.io)$' |
            paste -sd,)
    objects=$(kubectl get "$names" --namespace="$1" --output=name --ignore-not-found)
fi

kubectl get --raw /version | tr -d '\n' | sed -nE 's/.*"gitVersion": *"v([0-9]+\.[0-9]+).*/release \1\n/p'
echo "$kinds" | awk '{ print "served", $1, $3 }' | sed 's/ *$//'
kubectl get services --all-namespaces \
    --output=jsonpath='{range .items[*]}service {.metadata.namespace}/{.metadata.name} {.spec.clusterIP} {.spec.clusterIPs[*]} {.spec.ports[*].nodePort}{"\n"}{end}'
kubectl get persistentvolumes --output=jsonpath='{range .items[*]}volume {.metadata.name} {.status.phase} {.spec.claimRef.namespace}/{.spec.claimRef.name}{"\n"}{end}'
[ -n "$found" ] || exit 0
echo namespace
[ -z "$objects" ] || echo "$objects" | sed 's/^/object /'
