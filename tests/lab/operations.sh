# shellcheck shell=bash disable=SC2154
# The operations of tests/lab/operations. $operation is the folder for the logs of the one that runs.

operations=(undo conformance reconcile fleet)

# holds TEXT COMMAND...: ends the operation with that text unless the command succeeds
holds() {
  local text=$1 start=$SECONDS file
  file=$operation/$(printf '%s' "$text" | tr -c 'a-zA-Z0-9.' -).log
  shift
  if "$@" >"$file" 2>&1 </dev/null; then
    printf '  ok      %s (%ss)\n' "$text" $((SECONDS - start))
    return
  fi
  printf '  FAILED  %s (%ss), the end of its output:\n' "$text" $((SECONDS - start))
  tail -25 "$file" | cut -c1-300 | sed 's/^/          /'
  echo "$text" >"$operation/failed"
  exit 1
}

# run NAME PLAYBOOK OPTION...: the output stays in NAME, and every host's part succeeds
run() {
  local name=$1 playbook=$2; shift 2
  "$windlass" playbook -i "$inventory" "playbooks/$playbook.yml" "$@" >"$operation/$name" 2>&1 || { tail -25 "$operation/$name"; return 1; }
  recap "$operation/$name" 'unreachable=0 +failed=0'
}

# unchanged PLAYBOOK OPTION...: a run of it changes nothing
unchanged() {
  run unchanged "$@" && recap "$operation/unchanged" 'changed=0 ' || { grep -B3 '^changed:' "$operation/unchanged"; return 1; }
}

# refused NAME TEXT PLAYBOOK OPTION...: the run ends with this text
refused() {
  local name=$1 text=$2; shift 2
  if run "$name" "$@"; then echo 'it was not refused'; return 1; fi
  grep -q -- "$text" "$operation/$name"
}

not() { ! "$@"; }

hosts_up() {
  rm -f "$log/cluster"
  "$windlass" lab down
  "$windlass" lab up --nodes "$1" --memory 3G --mount "$cache/artifacts:$cache/artifacts" "${lab_options[@]}"
}

# cluster KIND: a cluster of that kind runs, with the service hello: `two` nodes, or `three` that are all control planes
cluster() {
  local count=3 control_planes='node1 node2 node3'
  nodes='node1 node2 node3' inventory=$log/$1
  [ "$1" = three ] || { nodes='node1 node2' count=2 control_planes=node1; }
  [ "$(cat "$log/cluster" 2>/dev/null)" != "$1" ] || return 0
  holds "$count hosts start" hosts_up $count
  rm -rf "$inventory"
  holds 'their inventory' grouped "$inventory" "$control_planes" "$control_planes" "$nodes"
  holds 'their settings' settings
  holds 'cluster.yml makes a cluster' run cluster.log cluster
  holds 'its nodes are Ready' eventually 60 all_ready
  holds 'a Deployment answers on every node' deployment
  echo "$1" >"$log/cluster"
}

settings() { backup_settings >"$inventory/group_vars/all/backup.yml" && age_on $nodes; }

all_ready() {
  kubectl node1 get nodes -o wide
  [ "$(kubectl node1 get nodes --no-headers | awk '$2 == "Ready"' | wc -l)" = "$(wc -w <<<"$nodes")" ]
}

deployment() {
  kubectl node1 apply -f - <tests/lab/hello.yml && eventually 180 kubectl node1 rollout status deployment/hello --timeout 60s &&
    answer_everywhere
}
answer_everywhere() { local node; for node in $nodes; do eventually 60 answers "$node" node1 || return 1; done; }

# ---- undo ----

newest_archive() { basename "$(ls -t "$log"/backups/*.age | head -1)"; }

is_bare() {
  local node
  for node in $nodes; do
    on "$node" '! test -e /etc/kubernetes && ! test -e /var/lib/etcd/member && ! systemctl is-active -q kubelet && ! systemctl is-active -q etcd' || return 1
  done
}

objects_came_back() {
  [ "$(kubectl node1 --namespace shop get configmap kept -o 'jsonpath={.data.key}')" = value ] &&
    [ "$(kubectl node1 --namespace shop get secret kept -o 'jsonpath={.data.key}' | base64 -d)" = value ] &&
    [ "$(kubectl node1 get namespace shop -o 'jsonpath={.metadata.uid}')" = "$(cat "$operation/uid")" ]
}

make_objects() {
  kubectl node1 create namespace shop && kubectl node1 --namespace shop create configmap kept --from-literal=key=value &&
    kubectl node1 --namespace shop create secret generic kept --from-literal=key=value &&
    kubectl node1 get namespace shop -o 'jsonpath={.metadata.uid}' >"$operation/uid"
}

# An object that was made right before the reset is in the archive.
operation_undo() {
  cluster two
  holds 'objects of an application' make_objects
  holds 'reset.yml is refused without a confirmation' refused refused.log 'Nothing was done' reset
  rm -rf "$log/backups"
  holds 'reset.yml removes the cluster' run reset.log reset -e reset_confirmation=yes
  rm -f "$log/cluster"
  holds 'nothing of the cluster is on the hosts' is_bare
  holds 'a last snapshot is on this machine' newest_archive
  holds '--check of the undo changes nothing' run check.log restore --check -e backup_archive="$(newest_archive)"
  holds 'still nothing of the cluster is on the hosts' is_bare
  holds 'restore.yml undoes the reset' run undo.log restore -e restore_confirmation=yes -e backup_archive="$(newest_archive)"
  holds 'its nodes are Ready' eventually 60 all_ready
  holds 'its objects are the same ones' objects_came_back
  holds 'its Deployment answers on every node' answer_everywhere
  holds 'cluster.yml changes nothing' unchanged cluster
  echo two >"$log/cluster"
}

# ---- conformance ----

conforms() {
  run conformance.log conformance -e conformance_report="$operation/conformance.json" &&
    grep -q '"passed": true' "$operation/conformance.json" || { grep -E ' fail ' "$operation/conformance.log"; return 1; }
}

operation_conformance() {
  local skipped=objects,watch,definitions,collection,settings,tokens,rbac,daemonset,statefulset,job,cronjob,init,probes
  skipped+=,clusterip,headless,nodeport,loadbalancer,externalname,quota,eviction,exec,logs,portforward
  cluster two
  holds '--check lists the tests and makes nothing' run check.log conformance --check
  holds 'it left no namespace' not kubectl node1 get namespace windlass-conformance
  holds 'every test passes' conforms
  holds 'it left no namespace behind' not kubectl node1 get namespace windlass-conformance
  holds 'a test that cannot pass is a failure' refused broken.log 'tests failed: deployment' conformance \
    -e conformance_image=docker.io/windlass/missing:1 -e conformance_timeout=5 -e "{conformance_skip: [$skipped]}" \
    -e conformance_report="$operation/broken.json"
  holds 'cluster.yml changes nothing' unchanged cluster
}

# ---- reconcile ----

reconcile() { "$windlass" reconcile -i "$inventory" --policy "$log/$1" --once; }

damage() {
  on node2 'systemctl stop kubelet; sed -i "s/maxPods: .*/maxPods: 7/" /etc/kubernetes/kubelet-config.yaml' && on node1 'chmod 0644 /etc/kubernetes/admin.conf'
}
is_damaged() {
  on node2 '! systemctl is-active -q kubelet && grep -q "maxPods: 7$" /etc/kubernetes/kubelet-config.yaml' && [ "$(on node1 stat -c %a /etc/kubernetes/admin.conf)" = 644 ]
}
is_repaired() {
  on node2 'systemctl is-active -q kubelet && ! grep -q "maxPods: 7$" /etc/kubernetes/kubelet-config.yaml' && [ "$(on node1 stat -c %a /etc/kubernetes/admin.conf)" = 600 ]
}

# reported POLICY: a round ends with 2 and names the damage
reported() {
  reconcile "$1" >"$operation/reported" 2>&1
  [ $? = 2 ] || { echo 'another exit code than 2'; return 1; }
  grep 'node.kubelet node2: kubelet does not answer' "$operation/reported" || { grep -v '^ok\|^skipping' "$operation/reported" | tail -40; return 1; }
}

operation_reconcile() {
  cluster two
  printf '{}\n' >"$log/report-policy.yml"
  printf 'repair: [drift]\nmetrics: %s\n' "$operation/windlass.prom" >"$log/repair-policy.yml"
  holds 'a healthy cluster has no finding' eventually 120 reconcile report-policy.yml
  holds 'three files and services are damaged' damage
  holds 'a round without repairs reports it' reported report-policy.yml
  holds 'and leaves it' is_damaged
  holds 'while paused' "$windlass" reconcile -i "$inventory" --policy "$log/repair-policy.yml" --pause
  holds 'a round reports it' reported repair-policy.yml
  holds 'and leaves it too' is_damaged
  holds 'it is not paused any more' "$windlass" reconcile -i "$inventory" --policy "$log/repair-policy.yml" --unpause
  # Pods may still become ready in this round, so its exit code does not count.
  reconcile repair-policy.yml >"$operation/repair.log" 2>&1
  holds 'another round repairs it' is_repaired
  holds 'and the next one has no finding' eventually 120 reconcile repair-policy.yml
  holds 'the metrics are written' grep -q '^windlass_' "$operation/windlass.prom"
  holds 'cluster.yml changes nothing' unchanged cluster
}

# ---- fleet ----

fleet() { "$windlass" fleet -i "$log/east" -i "$log/west" "$@"; }
# east and west are node1 and node2
both_ready() {
  [ "$(kubectl node1 get nodes --no-headers | awk '{ print $1, $2 }')" = 'node1 Ready' ] &&
    [ "$(kubectl node2 get nodes --no-headers | awk '{ print $1, $2 }')" = 'node2 Ready' ] &&
    [ "$(on node1 cat /etc/kubernetes/ssl/ca.crt)" != "$(on node2 cat /etc/kubernetes/ssl/ca.crt)" ]
}
made_at_once() {
  fleet playbook playbooks/cluster.yml >"$operation/fleet.log" 2>&1 || { tail -30 "$operation/fleet.log"; return 1; }
  # Neither waited for the end of the other.
  sed -n '/PLAY RECAP/q; s/^\[\(east\|west\)\] TASK.*/\1/p' "$operation/fleet.log" | sort | uniq -c
  [ "$(sed -n '/PLAY RECAP/q; s/^\[\(east\|west\)\] TASK.*/\1/p' "$operation/fleet.log" | sort -u | wc -l)" = 2 ]
}
both_unchanged() {
  fleet playbook playbooks/cluster.yml >"$operation/again.log" 2>&1 || { tail -30 "$operation/again.log"; return 1; }
  [ "$(grep -cE '^\[(east|west)\] node[12] +: .*changed=0 +unreachable=0 +failed=0' "$operation/again.log")" = 2 ]
}
only_west_fails() {
  fleet playbook playbooks/verify.yml >"$operation/verify.log" 2>&1
  [ $? = 2 ] || { echo 'another exit code than 2'; return 1; }
  tail -3 "$operation/verify.log"
  grep -qE '^east +ok ' "$operation/verify.log" && grep -qE '^west +exit code 2 ' "$operation/verify.log"
}

operation_fleet() {
  local nodes='node1 node2' inventory=$log/east
  holds '2 hosts start' hosts_up 2
  grouped "$log/east" node1 node1 node1
  grouped "$log/west" node2 node2 node2
  holds 'two clusters are made at once' made_at_once
  holds 'each is a cluster of its own' eventually 60 both_ready
  holds 'a second run changes nothing' both_unchanged
  holds 'both are healthy' eventually 120 fleet --quiet playbook playbooks/verify.yml
  holds 'one is damaged' on node2 systemctl stop kubelet
  holds 'only its run fails' only_west_fails
  holds 'the fleet repairs it' fleet playbook playbooks/cluster.yml
  holds 'both are healthy again' eventually 120 fleet --quiet playbook playbooks/verify.yml
}
