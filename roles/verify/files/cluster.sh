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

nodes() {
  local node cordoned version runtime built conditions condition wanted
  while IFS=';' read -r node cordoned version runtime conditions; do
    case " $conditions " in
      *' Ready=True '*) say cluster.nodes pass "$node" ;;
      *) say cluster.nodes fail "$node is not Ready" ;;
    esac
    for condition in MemoryPressure DiskPressure PIDPressure NetworkUnavailable; do
      ! among "$condition=True" "$conditions" || say cluster.nodes fail "$node has $condition"
    done
    [ -z "$cordoned" ] || say cluster.nodes warn "$node is cordoned"
    among "$node" "${inventory[*]}" || say cluster.nodes warn "$node is not in the inventory"
    say cluster.versions "$(judge [ "$version" = "v$KUBE_VERSION" ])" \
      "$node runs kubelet ${version#v}, the inventory wants $KUBE_VERSION"
    # Programs that were not built upstream may add metadata after a plus sign, such as 2.1.9+unknown.
    built=${runtime#*://} wanted=${RUNTIME_VERSION:-${runtime#*://}}
    say cluster.versions "$(judge [ "${built%%+*}" = "${wanted%%+*}" ])" \
      "$node runs $runtime, the inventory wants $wanted"
  done
}
found=$(list cluster.nodes "{.metadata.name};{.spec.unschedulable};{.status.nodeInfo.kubeletVersion};\
{.status.nodeInfo.containerRuntimeVersion};{range .status.conditions[*]} {.type}={.status}{end}" nodes)
if [ -n "$found" ]; then
  nodes <<<"$found"
  for wanted in "${inventory[@]}"; do
    grep -qF "$wanted;" <<<"$found" || say cluster.nodes fail "$wanted is in the inventory, and no node of the cluster"
  done
fi

pods() {
  local namespace pod node phase since deleted containers container name ready restarts reason
  local status check wrong all=0 now
  now=$(date +%s)
  while IFS=';' read -r namespace pod node phase since deleted containers; do
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
    # One that started shortly before gets its time. Without a node it has no such condition.
    [ -z "$wrong" ] || [ -z "$since" ] || [ $((now - $(date -d "$since" +%s))) -ge "$STARTING" ] || status=warn
    [ -z "$deleted" ] || status=warn wrong="is being deleted"
    [ -z "$wrong" ] || say $check $status "$namespace/$pod on ${node:-no node} $wrong"
  done
  [ $all -gt 0 ] || return
  for check in cluster.pods cluster.workloads cluster.images cluster.restarts; do say $check pass "$all pods"; done
}
list cluster.pods "{.metadata.namespace};{.metadata.name};{.spec.nodeName};{.status.phase};\
{.status.conditions[?(@.type==\"Ready\")].lastTransitionTime};{.metadata.deletionTimestamp};\
{range .status.containerStatuses[*]} {.name}:{.ready}:{.restartCount}:{.state.waiting.reason}{end}" \
  pods --all-namespaces | pods

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
