#!/bin/sh
# Checks once more whether nodes or a workload are ready: unready.sh KUBECTL KUBECONFIG KIND [NAME [NAMESPACE]]. If not,
# it fails with the reasons of up to three pods: pods of the workload; or, for a node, pods on their hosts' network,
# such as the agents of a network that it waits for. Since it checks again, a resumed run goes on once the cause is
# fixed.
program=$1
config=$2
kind=$3
name=${4:-}
pods=${5:+--namespace=$5}

kubectl() {
    "$program" --kubeconfig "$config" --request-timeout 20s "$@"
}

if [ "$kind" != node ]; then
    set -- rollout status "$kind/$name" ${pods:+"$pods"}
elif [ -n "$name" ]; then
    set -- wait --for=condition=Ready "node/$name"
else
    set -- wait --for=condition=Ready node --all
fi
# A server that never answers keeps kubectl waiting beyond its own limit.
answer=$(timeout 60 "$program" --kubeconfig "$config" "$@" --timeout=30s 2>&1) && exit 0
exec >&2
subject="$kind $name"
[ -n "$name" ] || subject='a node'
printf '%s\n' "$subject is not ready: $(printf '%s\n' "$answer" | tail -n 1)"

# Lines: network, namespace, pod, node, container, restarts, reason, exit code, message of the runtime or the scheduler.
# Kubelets choose the text of some, so %+q keeps these on one line and in ASCII.
# shellcheck disable=SC2016 # The dollars are the template's.
{
    pod='{{ if $pod.spec.hostNetwork }}host{{ end }};{{ $pod.metadata.namespace }};{{ $pod.metadata.name }};'
    container=$pod'{{ $pod.spec.nodeName }};{{ printf "%+.63q" .name }};{{ .restartCount }};'
    container=$container'{{ with .state.waiting }}{{ with .reason }}{{ printf "%+.63q" . }}{{ end }}{{ end }};'
    container=$container'{{ with .state.terminated }}{{ .exitCode }}{{ end }};'
    container=$container'{{ with or .state.terminated .lastState.terminated .state.waiting }}'
    container=$container'{{ with .message }}{{ printf "%+.500q" . }}{{ end }}{{ end }}{{ "\n" }}'
    container='{{ if not .ready }}'$container'{{ end }}'
    unplaced=$pod';;0;Unschedulable;;{{ with .message }}{{ printf "%+.500q" . }}{{ end }}{{ "\n" }}'
    unplaced='{{ if and (eq .type "PodScheduled") (eq .status "False") }}'$unplaced'{{ end }}'
    template='{{ range .items }}{{ $pod := . }}{{ range .status.conditions }}'$unplaced'{{ end }}'
    template=$template'{{ range .status.initContainerStatuses }}'$container'{{ end }}'
    template=$template'{{ range .status.containerStatuses }}'$container'{{ end }}{{ end }}'
}

# The first of each workload's containers, crashed ones before others; a container that is done or has to wait is not a
# reason.
reasons() {
    kubectl get pods "${pods:---all-namespaces}" --output "go-template=$template" |
        awk -F ';' -v OFS=';' -v workload="$name" -v kind="$kind" '
            { gsub(/[\\"]/, "", $5); gsub(/[\\"]/, "", $7) }
            kind == "node" ? $1 != "host" : index($3, workload "-") != 1 { next }
            $8 == "0" || $7 == "PodInitializing" { next }
            !seen[$2, $5, $7, $8]++ { print ($6 > 0 || $8 ? 0 : $7 ? 1 : 2) ";" $0 }' |
        sort -t ';' -k 1,1n | head -n 3
}

# last_warning NAMESPACE POD
last_warning() {
    kubectl get events --namespace "$1" --field-selector "involvedObject.name=$2,type=Warning" \
        --sort-by .metadata.creationTimestamp --output 'jsonpath={range .items[*]}{.message}{"\n"}{end}' 2>/dev/null |
        tail -n 1
}

reasons | while IFS=';' read -r _ _ space pod node container restarts reason code message; do
    [ -z "$code" ] || reason="${reason:-exit} with code $code"
    place="$space/$pod on ${node:-no node}${container:+, container $container}"
    printf '%s\n' "$place: ${reason:-running, but not ready}, $restarts restarts"
    lines=
    if [ "$restarts" -gt 0 ] || [ -n "$code" ]; then
        lines=$(kubectl logs --namespace "$space" --container "$container" --tail 5 --limit-bytes 20000 -- "$pod" \
            2>/dev/null)
    fi
    lines=${lines:-$(printf '%s\n' "$message" | sed 's/^"\(.*\)"$/\1/; s/\\"/"/g')}
    lines=${lines:-$(last_warning "$space" "$pod")}
    printf '%s\n' "$lines" | cut -c 1-500 | sed 's/^/    /'
done | head -c 6000
exit 1
