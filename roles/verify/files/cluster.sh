# shellcheck shell=bash disable=SC2154
# Observations of the cluster's objects; lib.sh comes before this file. Standard input has the names of all nodes that the inventory has.
mapfile -t inventory
exec 3>&1
get() { # get CHECK WORDS...: objects, a line for each
  local check=$1
  shift
  "$BIN_DIR/kubectl" --kubeconfig="$KUBE_CONFIG_DIR/admin.conf" --server="https://$API_SERVER" --request-timeout=60s get "$@" 2>/dev/null ||
    say "$check" unknown "the API does not list $1" >&3
}

nodes=$(get cluster.nodes nodes -o 'jsonpath={range .items[*]}{.metadata.name};{.spec.unschedulable};{.status.nodeInfo.kubeletVersion};{.status.nodeInfo.containerRuntimeVersion};{range .status.conditions[*]} {.type}={.status}{end}{"\n"}{end}')
for wanted in "${inventory[@]}"; do
  grep -qF "$wanted;" <<<"$nodes" || say cluster.nodes fail "$wanted is in the inventory, and no node of the cluster"
done
while IFS=';' read -r node cordoned version runtime conditions; do
  [ -n "$runtime" ] || continue
  case " $conditions " in
    *' Ready=True '*) say cluster.nodes pass "$node" ;;
    *) say cluster.nodes fail "$node is not Ready" ;;
  esac
  for condition in MemoryPressure DiskPressure PIDPressure NetworkUnavailable; do
    [[ " $conditions " != *" $condition=True "* ]] || say cluster.nodes fail "$node has $condition"
  done
  [ -z "$cordoned" ] || say cluster.nodes warn "$node is cordoned"
  [[ " ${inventory[*]} " == *" $node "* ]] || say cluster.nodes warn "$node is not in the inventory"
  say cluster.versions "$([ "$version" = "v$KUBE_VERSION" ] && echo pass || echo fail)" \
    "$node runs kubelet ${version#v}, the inventory wants $KUBE_VERSION"
  wanted=${RUNTIME_VERSION:-${runtime#*://}}
  say cluster.versions "$([ "${runtime#*://}" = "$wanted" ] && echo pass || echo fail)" "$node runs $runtime, the inventory wants $wanted"
done <<<"$nodes"

pods() {
  local namespace pod node phase since deleted containers container name ready restarts reason status check wrong all=0 now
  now=$(date +%s)
  while IFS=';' read -r namespace pod node phase since deleted containers; do
    all=$((all + 1)) status=warn check=cluster.workloads wrong=
    [[ " $NAMESPACES " != *" $namespace "* ]] || status=fail check=cluster.pods
    [ "$phase" != Succeeded ] || continue
    [ "$phase" = Running ] || wrong="is $phase"
    for container in $containers; do
      IFS=':' read -r name ready restarts reason <<<"$container"
      [ "$ready" = true ] || wrong=${wrong:-"has $name not ready"}
      [ -z "$reason" ] || wrong="has $name in $reason"
      case $reason in
        ErrImagePull | ImagePullBackOff | InvalidImageName | ErrImageNeverPull) say cluster.images fail "$namespace/$pod on $node: $reason" ;;
      esac
      [ "${restarts:-0}" -lt 20 ] || say cluster.restarts warn "$namespace/$pod on $node: $name was restarted $restarts times"
    done
    # One that has only just started gets its time. Without a node it has no such condition.
    [ -z "$wrong" ] || [ -z "$since" ] || [ $((now - $(date -d "$since" +%s))) -ge "$STARTING" ] || status=warn
    [ -z "$deleted" ] || status=warn wrong="is being deleted"
    [ -z "$wrong" ] || say $check $status "$namespace/$pod on ${node:-no node} $wrong"
  done
  for check in cluster.pods cluster.workloads cluster.images cluster.restarts; do [ $all = 0 ] || say $check pass "$all pods"; done
}
get cluster.pods pods --all-namespaces -o 'jsonpath={range .items[*]}{.metadata.namespace};{.metadata.name};{.spec.nodeName};{.status.phase};{.status.conditions[?(@.type=="Ready")].lastTransitionTime};{.metadata.deletionTimestamp};{range .status.containerStatuses[*]} {.name}:{.ready}:{.restartCount}:{.state.waiting.reason}{end}{"\n"}{end}' | pods

get cluster.controllers deployments,daemonsets,statefulsets --all-namespaces -o 'jsonpath={range .items[*]}{.kind};{.metadata.namespace};{.metadata.name};{.spec.replicas}{.status.desiredNumberScheduled};{.status.readyReplicas}{.status.numberReady}{"\n"}{end}' |
  while IFS=';' read -r kind namespace name wanted ready; do
    status=pass
    [ "${ready:-0}" -ge "${wanted:-0}" ] || status=warn
    [[ $status = pass || " $NAMESPACES " != *" $namespace "* ]] || status=fail
    say cluster.controllers $status "$kind $namespace/$name: ${ready:-0} of ${wanted:-0} pods are ready"
  done

say cluster.volumes pass "read"
get cluster.volumes persistentvolumes,persistentvolumeclaims --all-namespaces -o 'jsonpath={range .items[*]}{.kind};{.metadata.namespace}/{.metadata.name};{.status.phase}{"\n"}{end}' |
  while IFS=';' read -r kind name phase; do
    case $phase in
      Lost | Failed) say cluster.volumes fail "$kind ${name#/} is $phase" ;;
      Pending) say cluster.volumes warn "$kind ${name#/} is $phase" ;;
    esac
  done

say cluster.requests pass "read"
get cluster.requests certificatesigningrequests -o 'jsonpath={range .items[*]}{.metadata.name};{.spec.username};{.status.conditions[*].type}{"\n"}{end}' |
  while IFS=';' read -r name user conditions; do
    [ -n "$conditions" ] || [ -z "$name" ] || say cluster.requests warn "$name of $user waits to be approved"
  done

get cluster.services apiservices -o 'jsonpath={range .items[*]}{.metadata.name};{range .status.conditions[*]} {.type}={.status}{end}{"\n"}{end}' |
  while IFS=';' read -r name conditions; do
    status=pass
    [[ " $conditions " != *' Available=False '* ]] || status=fail
    say cluster.services $status "$name"
  done
exit 0
