# shellcheck shell=bash disable=SC2154
# The operations of tests/lab/operations in which a node is lost or fails. They use functions of operations.sh.

# ---- dead-node ----

# removed_dead: right after the loss, when the API still reports the node as ready
removed_dead() {
  "$windlass" playbook -i "$inventory" playbooks/remove_node.yml -e node=node3 -e skip_confirmation=true -e reset_nodes=false \
    -e allow_ungraceful_removal=true >"$operation/dead.log" 2>&1 || { tail -25 "$operation/dead.log"; return 1; }
  given_up "$operation/dead.log"
}
is_gone() {
  not kubectl node1 get node "$1" && kubectl node1 get pods --all-namespaces -o wide --no-headers | not grep " $1 "
}

# The host returns with what it had, and somebody has changed that.
changed_by_hand() {
  on "$1" 'sed -i "s/maxPods: .*/maxPods: 7/" /etc/kubernetes/kubelet-config.yaml && chmod 0644 /etc/kubernetes/admin.conf &&
    sysctl -q -w net.ipv4.ip_forward=0 && touch /etc/kubernetes/manifests/stray.txt'
}
as_made() {
  on "$1" '! grep -q "maxPods: 7$" /etc/kubernetes/kubelet-config.yaml && [ "$(stat -c %a /etc/kubernetes/admin.conf)" = 600 ] &&
    [ "$(sysctl -n net.ipv4.ip_forward)" = 1 ] && ! test -e /etc/kubernetes/manifests/stray.txt'
}

operation_dead_node() {
  local rest='node1 node2'
  cluster three
  rm -f "$log/cluster"
  holds 'a control plane loses its power' "$windlass" lab kill node3
  holds 'remove_node.yml gives up its pods' removed_dead
  holds 'the cluster has neither it nor its pods' is_gone node3
  nodes=$rest
  holds 'the service answers on the other nodes' answer_everywhere
  holds 'its pods run on the other nodes' eventually 120 kubectl node1 rollout status deployment/hello --timeout 60s
  nodes="$rest node3"
  holds 'the host returns' "$windlass" lab start node3
  holds 'files and parameters of it are changed by hand' changed_by_hand node3
  holds 'replace_node.yml joins it again' run replace.log replace_node -e node=node3 -e skip_confirmation=true
  holds 'nothing of these changes is left' as_made node3
  holds 'its nodes are Ready' eventually 60 all_ready
  holds 'the Deployment answers on every node' deployment
  holds 'cluster.yml changes nothing' unchanged cluster
}

# ---- failed-node ----

# only_starts NODE RELEASE: its kubelet starts with that release only, or with any
only_starts() {
  local folder=/run/systemd/system/kubelet.service.d
  on "$1" "mkdir -p $folder && rm -f $folder/only.conf && [ -z '${2:-}' ] ||
    printf '[Service]\nExecStartPre=/bin/sh -c \"/usr/local/bin/kubelet --version | grep -F v${2:-}\"\n' >$folder/only.conf; systemctl daemon-reload"
}
kubelets_are() { [ "$(kubectl node1 get nodes --no-headers -o custom-columns=V:.status.nodeInfo.kubeletVersion | xargs)" = "$*" ]; }

operation_failed_node() {
  local from to
  from=$(older_release) to=$(newer_release)
  rm -f "$log/cluster"
  export WINDLASS_LAB_RELEASE=$from
  cluster two
  rm -f "$log/cluster"
  holds 'objects of an application' make_objects
  export WINDLASS_LAB_RELEASE=$to
  holds 'kubelet of the control plane cannot start with the next release' only_starts node1 "$from"
  holds 'upgrade.yml fails there' refused first.log 'node1 was not upgraded.*It has its old programs and static pods back' upgrade
  holds 'its nodes are Ready' eventually 60 all_ready
  holds 'all of it has the former release' eventually 120 running "$from"
  holds 'no node is cordoned' none_cordoned
  holds 'the service answers on every node' answer_everywhere
  holds 'kubelet of the control plane starts again' only_starts node1
  holds 'that of the worker does not' only_starts node2 "$from"
  holds 'upgrade.yml fails at the worker' refused second.log 'node2 was not upgraded.*It has its old programs and static pods back' upgrade
  holds 'the nodes are Ready' eventually 60 all_ready
  holds 'the control plane has the next release, and the worker the former' eventually 60 kubelets_are "v$to" "v$from"
  holds 'neither is cordoned' none_cordoned
  holds 'the service answers on both nodes' answer_everywhere
  holds 'kubelet of the worker starts again' only_starts node2
  holds 'upgrade.yml finishes' run upgrade.log upgrade
  holds 'every node has the next release' running "$to"
  holds 'the objects are the same ones' objects_came_back
  holds 'upgrade.yml changes nothing' unchanged upgrade
}

# ---- spare ----

# spare_machines: a program that gives node2 the machine of node3
spare_machines() {
  mkdir -p "$log/spare"
  printf 'repair: [nodes]\nmachines: ./machines\nunhealthy_for: 5s\n' >"$log/spare/policy.yml"
  cat >"$log/spare/machines" <<MACHINES
#!/bin/bash
echo "\$*" >>'$operation/machines.log'
case \$1 in
  release) '$windlass' lab kill "\$2" >&2 || true ;;
  acquire) echo '{"ansible_host": "$(address node3)", "ip": "$(address node3)"}' ;;
esac
MACHINES
  chmod +x "$log/spare/machines"
}
not_replaced() {
  reconcile spare/policy.yml >"$operation/reported" 2>&1
  [ $? = 2 ] && grep 'node2' "$operation/reported" && [ ! -e "$operation/machines.log" ] || { tail -25 "$operation/reported"; return 1; }
}
replaced() {
  reconcile spare/policy.yml >"$operation/replaced" 2>&1
  [ -e "$log/spare/machines.yml" ] || { tail -25 "$operation/replaced"; return 1; }
  [ "$(xargs <"$operation/machines.log")" = 'release node2 acquire node2' ]
}
is_the_spare() {
  [ "$(kubectl node1 get node node2 -o "'jsonpath={.status.addresses[?(@.type==\"InternalIP\")].address}'")" = "$(address node3)" ]
}

operation_spare() {
  local nodes='node1 node2 node3' inventory=$log/spared
  holds '3 hosts start' hosts_up 3
  grouped "$inventory" node1 node1 'node1 node2'
  holds 'their settings' settings
  nodes='node1 node2'
  holds 'cluster.yml makes a cluster of two' run cluster.log cluster
  holds 'its nodes are Ready' eventually 60 all_ready
  holds 'a Deployment answers on every node' deployment
  spare_machines
  holds 'a healthy cluster has no finding' eventually 120 reconcile spare/policy.yml
  holds 'a worker loses its power' "$windlass" lab kill node2
  holds 'a round reports it, and replaces nothing yet' not_replaced
  holds 'a later round replaces it by a spare machine' eventually 300 replaced
  holds 'the node has the address of the spare machine' is_the_spare
  holds 'its nodes are all Ready' eventually 60 all_ready
  nodes='node1 node3'
  holds 'the Deployment answers on every machine' deployment
  holds 'the next round has no finding' eventually 180 reconcile spare/policy.yml
  holds 'cluster.yml changes nothing' unchanged cluster -i "$log/spare/machines.yml"
}
