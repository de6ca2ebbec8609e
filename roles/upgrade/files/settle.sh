#!/bin/sh
# settle.sh TRIES SECONDS KUBECTL...: waits until no PodDisruptionBudget is exhausted and each webhook that refuses on
# failure is answered by a pod, TRIES times for SECONDS. Pods of a node that was upgraded, or that is drained, still
# start.
tries=$1 seconds=$2
shift 2

exhausted() {
    "$@" get poddisruptionbudgets --all-namespaces --output \
        'jsonpath={range .items[*]}{.status.disruptionsAllowed}={.status.expectedPods}{"\n"}{end}' |
            grep -q '^0\{0,1\}=[1-9]'
}

unanswered() {
    answered=$("$@" get endpoints --all-namespaces --output \
        'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}={.subsets[*].addresses[0].ip}{"\n"}{end}' |
            sed -n 's/=..*//p')
    "$@" get validatingwebhookconfigurations,mutatingwebhookconfigurations --output \
        'jsonpath={range .items[*]}{range .webhooks[?(@.failurePolicy=="Fail")]}{.clientConfig.service.namespace}/{.clientConfig.service.name}{"\n"}{end}{end}' |
        sed '/^\/\{0,1\}$/d' | while read -r service; do
            printf '%s\n' "$answered" | grep -qxF -e "$service" || echo "$service"
        done | grep -q .
}

while exhausted "$@" || unanswered "$@"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { echo 'not settled'; exit 0; }
    sleep "$seconds"
done
echo settled
