#!/bin/sh
# Waits for the pods of a DaemonSet except on some nodes: rollout.sh KUBECTL KUBECONFIG SECONDS NAMESPACE NAME NODE...
# Kubernetes counts a pod on a dead node as unavailable, and by default replaces no further one then. So this deletes
# outdated pods of the other nodes, one at a time. After SECONDS it fails and names the pods that it waits for.
program=$1
config=$2
deadline=$(($(date +%s) + $3))
namespace=$4
name=$5
shift 5
absent=" $* "
before=

# The program's own limit does not hold if a server accepts the connection and never answers.
kubectl() {
    timeout 60 "$program" --kubeconfig "$config" --request-timeout 20s --namespace "$namespace" "$@"
}

# Lines of `found`: STATE POD NODE; and `absent` for each of the NODEs that has a pod. Fails if the API or the
# controller does not answer.
look() {
    # shellcheck disable=SC2046 # Words without blanks.
    set -- $(kubectl get daemonset "$name" --output \
        'jsonpath={.metadata.uid} {.metadata.generation} {.status.observedGeneration} {.status.desiredNumberScheduled} {.spec.updateStrategy.type}')
    [ $# = 5 ] && [ "$2" = "$3" ] || return 1
    wanted=$4
    strategy=$5
    # Lines contain no text that a kubelet or a tenant chooses: of the owner only this uid, and the conditions as JSON.
    owner="{range .items[*]}{.metadata.ownerReferences[?(@.uid==\"$1\")].uid};"
    hash='{.metadata.labels.controller-revision-hash};'
    revision=$(kubectl get controllerrevisions --output "jsonpath=$owner$hash{.revision}{\"\\n\"}{end}" |
        awk -F ';' -v uid="$1" '$1 == uid' | sort -t ';' -k 3,3n | tail -n 1 | cut -d ';' -f 2)
    found=$(kubectl get pods --output \
        "jsonpath=$owner$hash{.spec.nodeName};{.metadata.deletionTimestamp};{.metadata.name};{.status.conditions}{\"\\n\"}{end}" |
        awk -F ';' -v uid="$1" -v revision="$revision" -v absent="$absent" '
            $1 != uid { next }
            $3 != "" && index(absent, " " $3 " ") { if (!seen[$3]++) print "absent"; next }
            { ready = index($0, "\"status\":\"True\",\"type\":\"Ready\"") }
            { print ($4 != "" || !ready ? "unready" : $2 == revision ? "current" : "outdated"), $5, $3 }')
    [ -n "$revision" ]
}

while sleep 2; do
    if look; then
        [ "$(printf '%s\n' "$found" | grep -cE '^(current|absent)')" -lt "$wanted" ] || exit 0
        outdated=$(printf '%s\n' "$found" | awk '$1 == "outdated" { print $2; exit }')
        # The controller replaces a pod, if it may, between two checks.
        if [ "$strategy" = RollingUpdate ] && [ -n "$outdated" ] && [ "$found" = "$before" ] &&
            ! printf '%s\n' "$found" | grep -q ^unready; then
            kubectl delete pod "$outdated" --wait=false
        fi
        before=$found
    fi
    [ "$(date +%s)" -lt "$deadline" ] || break
done
echo "The DaemonSet $name in $namespace is not ready on the nodes that were reached. Pods and nodes:" >&2
printf '%s\n' "${before:-no answer}" | grep -vE '^(current|absent)' | head -n 20 >&2
exit 1
