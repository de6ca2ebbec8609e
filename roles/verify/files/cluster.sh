# shellcheck shell=bash disable=SC2154
# Observations of the cluster's objects; lib.sh comes before this file. Standard input has the names of the inventory's
# nodes.
mapfile -t inventory
exec 3>&1

# list CHECK FIELDS WORDS...: objects, a line for each with its fields in kubectl's notation
list() {
  local check=$1 fields=$2
  shift 2
  "$BIN_DIR/kubectl" --kubeconfig="$KUBE_CONFIG_DIR/admin.conf" --server="https://$API_SERVER" --request-timeout=60s \
    get "$@" --output="jsonpath={range .items[*]}$fields{\"\\n\"}{end}" 2>/dev/null ||
    say "$check" unknown "the API does not list $1" >&3
}
among() { [[ " $2 " == *" $1 "* ]]; }

# about CHECK STATUS NODE TEXT: an observation of one node, as a line of JSON
about() {
  local LC_ALL=C text=${4//[^[:print:]]/?}
  text=${text//[\"\\]/?}
  printf '{"check":"%s","status":"%s","node":"%s","text":"%s"}\n' "$1" "$2" "${3//[^a-z0-9.-]/?}" "${text:0:300}"
}

# Kubelets write their versions and conditions as they like. `js` escapes line breaks and separators in them.
separator=$'\x1f'
template='{{range .items}}{{js .metadata.name}}{{"\x1f"}}{{if .spec.unschedulable}}true{{end}}{{"\x1f"}}'\
'{{js .status.nodeInfo.kubeletVersion}}{{"\x1f"}}{{js .status.nodeInfo.containerRuntimeVersion}}{{"\x1f"}}'\
'{{range .status.conditions}}{{if eq .type "Ready"}}{{js .status}}{{end}}{{end}}{{"\x1f"}}'\
'{{range .status.conditions}}{{if eq .status "True"}} {{js .type}}{{end}}{{end}}{{"\n"}}{{end}}'

nodes() {
  local node cordoned version runtime built ready conditions condition wanted status
  while IFS=$separator read -r node cordoned version runtime ready conditions; do
    case $ready in
      True) about cluster.nodes pass "$node" "$node" ;;
      *) about cluster.nodes fail "$node" "$node is not Ready" ;;
    esac
    status=pass
    for condition in MemoryPressure DiskPressure PIDPressure NetworkUnavailable; do
      ! among "$condition" "$conditions" || { status=fail &&
          about cluster.pressure fail "$node" "$node has $condition"; }
    done
    [ $status = fail ] || about cluster.pressure pass "$node" "$node"
    [ -z "$cordoned" ] || about cluster.nodes warn "$node" "$node is cordoned"
    among "$node" "${inventory[*]}" || about cluster.nodes warn "$node" "$node is not in the inventory"
    about cluster.versions "$(judge [ "$version" = "v$KUBE_VERSION" ])" "$node" \
      "$node runs kubelet ${version#v}, the inventory wants $KUBE_VERSION"
    # Programs that were not built upstream may add metadata after a plus sign, such as 2.1.9+unknown.
    built=${runtime#*://} wanted=${RUNTIME_VERSION:-${runtime#*://}}
    about cluster.versions "$(judge [ "${built%%+*}" = "${wanted%%+*}" ])" "$node" \
      "$node runs $runtime, the inventory wants $wanted"
  done
}
if found=$("$BIN_DIR/kubectl" --kubeconfig="$KUBE_CONFIG_DIR/admin.conf" --server="https://$API_SERVER" \
  --request-timeout=60s get nodes --output="go-template=$template" 2>/dev/null); then
  [ -z "$found" ] || nodes <<<"$found"
  names=$(cut -d "$separator" -f 1 <<<"$found")
  for wanted in "${inventory[@]}"; do
    grep -qxF "$wanted" <<<"$names" || say cluster.nodes fail "$wanted is in the inventory, and no node of the cluster"
  done
else
  say cluster.nodes unknown "the API does not list nodes"
fi

pods() {
  local namespace pod node phase since deleted containers container name ready restarts reason
  local status check wrong all=0 now -
  set -f
  now=$(date +%s)
  while IFS=';' read -r namespace pod node since deleted phase containers; do
    all=$((all + 1)) status=warn check=cluster.workloads wrong=
    ! among "$namespace" "$NAMESPACES" || status=fail check=cluster.pods
    [ "$phase" != Succeeded ] || continue
    [ "$phase" = Running ] || wrong="is $phase"
    for container in $containers; do
      IFS=':' read -r name ready restarts reason <<<"$container"
      [ "$ready" = true ] || wrong=${wrong:-"has $name not ready"}
      [ -z "$reason" ] || wrong="has $name in $reason"
      ! among "$reason" 'ErrImagePull ImagePullBackOff InvalidImageName ErrImageNeverPull' ||
        say cluster.images fail "$namespace/$pod on $node: $reason"
      [ "${restarts:-0}" -lt 20 ] ||
        say cluster.restarts warn "$namespace/$pod on $node: $name was restarted $restarts times"
    done
    # A pod that became unready only recently is a warning. A pod without a node has no such condition.
    [ -z "$wrong" ] || [ -z "$since" ] || [ $((now - $(date -d "$since" +%s))) -ge "$STARTING" ] || status=warn
    [ -z "$deleted" ] || status=warn wrong="is being deleted"
    [ -z "$wrong" ] || say $check $status "$namespace/$pod on ${node:-no node} $wrong"
  done
  [ $all -gt 0 ] || return
  for check in cluster.pods cluster.workloads cluster.images cluster.restarts; do say $check pass "$all pods"; done
}
# Kubelets write the phase and the containers as they like, too: they come last, and `js` escapes line breaks.
template='{{range .items}}{{.metadata.namespace}};{{.metadata.name}};{{with .spec.nodeName}}{{.}}{{end}};'\
'{{range .status.conditions}}{{if eq .type "Ready"}}{{with .lastTransitionTime}}{{.}}{{end}}{{end}}{{end}};'\
'{{with .metadata.deletionTimestamp}}{{.}}{{end}};{{with .status.phase}}{{js .}}{{end}};'\
'{{range .status.containerStatuses}} {{js .name}}:{{.ready}}:{{.restartCount}}:'\
'{{with .state.waiting}}{{with .reason}}{{js .}}{{end}}{{end}}{{end}}{{"\n"}}{{end}}'
if found=$("$BIN_DIR/kubectl" --kubeconfig="$KUBE_CONFIG_DIR/admin.conf" --server="https://$API_SERVER" \
  --request-timeout=60s get pods --all-namespaces --output="go-template=$template" 2>/dev/null); then
  [ -z "$found" ] || pods <<<"$found"
else
  say cluster.pods unknown "the API does not list pods"
fi

controllers() {
  local kind namespace name wanted ready status
  while IFS=';' read -r kind namespace name wanted ready; do
    status=pass
    [ "${ready:-0}" -ge "${wanted:-0}" ] || status=warn
    [ $status = pass ] || ! among "$namespace" "$NAMESPACES" || status=fail
    say cluster.controllers $status "$kind $namespace/$name: ${ready:-0} of ${wanted:-0} pods are ready"
  done
}
list cluster.controllers "{.kind};{.metadata.namespace};{.metadata.name};\
{.spec.replicas}{.status.desiredNumberScheduled};{.status.readyReplicas}{.status.numberReady}" \
  deployments,daemonsets,statefulsets --all-namespaces | controllers

volumes() {
  local kind name phase all=0
  while IFS=';' read -r kind name phase; do
    all=$((all + 1))
    case $phase in
      Lost | Failed) say cluster.volumes fail "$kind ${name#/} is $phase" ;;
      Pending) say cluster.volumes warn "$kind ${name#/} is $phase" ;;
    esac
  done
  say cluster.volumes pass "$all volumes and claims"
}
list cluster.volumes '{.kind};{.metadata.namespace}/{.metadata.name};{.status.phase}' \
  persistentvolumes,persistentvolumeclaims --all-namespaces | volumes

requests() {
  local name user conditions all=0
  while IFS=';' read -r name user conditions; do
    all=$((all + 1))
    [ -n "$conditions" ] || say cluster.requests warn "$name of $user waits to be approved"
  done
  say cluster.requests pass "$all requests"
}
list cluster.requests '{.metadata.name};{.spec.username};{.status.conditions[*].type}' \
  certificatesigningrequests | requests

services() {
  local name conditions status
  while IFS=';' read -r name conditions; do
    status=pass
    ! among Available=False "$conditions" || status=fail
    say cluster.services $status "$name"
  done
}
list cluster.services '{.metadata.name};{range .status.conditions[*]} {.type}={.status}{end}' apiservices | services
exit 0
