#!/bin/sh
# rewrite.sh KUBECTL KUBECONFIG RESOURCE...: stores all objects of the resources again, with the key that the API server
# writes with now. A resource may be a wildcard of EncryptionConfiguration: `*.*`, `*.GROUP`, or `*.` for the core
# group. Fails unless all objects were stored.
set -eu
kubectl="$1 --kubeconfig $2" tries=${REWRITE_TRIES:-10}
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# repeat COMMAND...: repeats it until it succeeds. An API server that restarted may not list all of its resources yet.
repeat() {
    try=1
    while ! "$@"; do
        [ "$try" -lt "$tries" ] || return 1
        try=$((try + 1))
        sleep 2
    done
}

# Writes the resources that can be listed and updated, and the groups that other servers store.
discover() {
    $kubectl api-resources --verbs=list,update --output=name >"$work/resources" 2>"$work/errors" &&
        $kubectl get apiservices.apiregistration.k8s.io \
            --output 'jsonpath={range .items[?(@.spec.service)]}{.spec.group}{"\n"}{end}' >"$work/foreign" \
                2>"$work/errors"
}

# selected WILDCARD: prints the resources that it stands for. Events are stored once, and have a second name.
selected() {
    awk -v wildcard="$1" -v foreign="$work/foreign" '
        BEGIN { while ((getline group < foreign) > 0) others[group] }
        {
            group = $1
            if (!sub(/^[^.]*[.]/, "", group)) group = ""
            if (group in others || wildcard == "*.*" && $1 == "events.events.k8s.io") next
            if (wildcard == "*.*" || wildcard == "*." group) print $1
        }' "$work/resources"
}

# store RESOURCE: stores each object as it is. One that somebody else changed or deleted since it was read needs no
# rewrite.
store() {
    $kubectl get "$1" --all-namespaces --output name >"$work/names" 2>"$work/errors" || return 1
    [ -s "$work/names" ] || return 0
    $kubectl get "$1" --all-namespaces --output json >"$work/objects" 2>"$work/errors" || return 1
    ! $kubectl replace --filename "$work/objects" >/dev/null 2>"$work/errors" || return 0
    [ -s "$work/errors" ] && ! grep -qvE '^Error from server \((Conflict|NotFound)\): ' "$work/errors"
}

failed() {
    echo "$1: $(head -c 2000 "$work/errors")" >&2
    exit 1
}

for resource; do
    case $resource in
        *'*'*)
            repeat discover || failed "The resources that $resource stands for could not be listed"
            selected "$resource"
            ;;
        *) printf '%s\n' "$resource" ;;
    esac >>"$work/all"
done
sort -u "$work/all" >"$work/sorted"
while read -r resource; do
    # Without the API of a resource, it has no objects.
    repeat store "$resource" </dev/null || grep -q "server doesn't have a resource type" "$work/errors" ||
        failed "Not all $resource could be stored again"
done <"$work/sorted"
