# shellcheck shell=bash disable=SC2154
# The operations of tests/lab/operations. $operation is the folder for the logs of the one that runs.

operations=(rotate upgrade-kills failed-node undo clone adopt conformance bundle registry preflight reconcile spare migrate-runtime migrate-network balancers backups settings nodes dead-node own-authorities fleet)

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
  tail -50 "$file" | cut -c1-300 | sed 's/^/          /'
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

# ---- rotate ----

# pod_asks NODE: requests to the API from the network of a pod there, with the token and the authority that the pod was given
# when it started. A request does not count if its pod has ended meanwhile.
pod_asks() {
  kubectl node1 create rolebinding asks --clusterrole=view --serviceaccount=default:default || return 1
  local api; api=$(kubectl node1 get service kubernetes -o 'jsonpath={.spec.clusterIP}') || return 1
  on "$1" "cat >/root/asks; systemd-run --quiet --unit=asks sh /root/asks $api" <<'ASKS'
cd "$(mktemp -d)" && : >/root/asks.failed && : >/root/asks.asked
while sleep 0.3; do
  pod=$(pgrep -n -x hello) || continue
  if ! [ -e "$pod.token" ]; then
    given=/proc/$pod/root/var/run/secrets/kubernetes.io/serviceaccount
    cp "$given/ca.crt" "$pod.crt" && cp "$given/token" "$pod.token" || continue
  fi
  code=$(nsenter --target "$pod" --net curl -s -m 3 -o /dev/null -w '%{http_code}' --cacert "$pod.crt" \
    -H "Authorization: Bearer $(cat "$pod.token")" "https://$1/api/v1/namespaces/default/pods?limit=1")
  ended=$?
  if [ "$code" != 200 ]; then
    [ -e "/proc/$pod" ] || continue
    echo "$(date +%T) pod $pod: answer $code, curl $ended" >>/root/asks.failed
  fi
  echo "$pod" >>/root/asks.asked
done
ASKS
}
pod_asks_end() { on "$1" 'systemctl stop asks; wc -l </root/asks.asked; cat /root/asks.failed'; }

keys() {
  on "$1" 'cd /etc/kubernetes/ssl && openssl x509 -in ca.crt -noout -fingerprint && openssl x509 -in front-proxy-ca.crt -noout -fingerprint &&
    sha256sum sa.key && openssl x509 -in /etc/ssl/etcd/ssl/ca.pem -noout -fingerprint'
}

# No authority and no key is one from before the rotation, and all control planes have the same ones.
all_new() {
  local node
  for node in $nodes; do keys "$node" >"$operation/keys.$node" && cmp "$operation/keys.node1" "$operation/keys.$node" || return 1; done
  [ "$(wc -l <"$operation/keys.node1")" = 4 ] && ! grep -Fxf "$operation/keys.before" "$operation/keys.node1"
}

# No request was refused, or met a certificate that the pod could not verify. For some seconds after an API server stops, the
# service `kubernetes` leads there too, so some find no server.
pod_was_trusted() {
  pod_asks_end node2 >"$operation/asks"
  cat "$operation/asks"
  ! grep -E 'answer 40[13]|curl (35|51|58|60)' "$operation/asks" && few_lost "$operation/asks" 10
}

node_was_served() {
  load_ends node3 >"$operation/load"
  cat "$operation/load"
  few_lost "$operation/load"
}

operation_rotate() {
  cluster three
  keys node1 >"$operation/keys.before"
  holds '--check shows the rotation and changes nothing' check_rotation
  holds 'a pod asks the API with its token' pod_asks node2
  holds 'a node asks the API and the service' load node3
  holds 'every authority and key is rotated' run rotate.log certificates --tags rotate -e certificates_issued_before=now
  holds 'no request of the pod was refused' pod_was_trusted
  holds 'a node lost few requests to the API and the service' node_was_served
  holds 'all control planes have the same new authorities and keys' all_new
  holds 'all nodes are Ready' eventually 60 all_ready
  holds 'the service answers on every node' answer_everywhere
  holds 'the report of certificates has no failure' run report.log certificates
  holds 'cluster.yml changes nothing' unchanged cluster
}

check_rotation() {
  run check.log certificates --tags rotate -e certificates_issued_before=now --check && keys node1 | cmp - "$operation/keys.before"
}

# ---- upgrade-kills ----

no_executors() { local node; for node in $nodes; do eventually 60 no_executor "$node" || return 1; done; }
none_cordoned() { kubectl node1 get nodes; ! kubectl node1 get nodes --no-headers | grep SchedulingDisabled; }
has_quorum() { on node1 'set -a; . /etc/etcdctl.env; etcdctl endpoint status --cluster'; }

# upgrade_killed NUMBER: an upgrade that `kill -9` ends after a random time. Every other one resumes the one before.
upgrade_killed() {
  local output=$operation/upgrade.$1 after=$((5 + RANDOM % 56)) options=() pid
  [ $(($1 % 2)) = 1 ] || options=(--resume --resume-anyway)
  # The program itself: a function in the background would be a shell that is killed instead.
  "$windlass" playbook -i "$inventory" playbooks/upgrade.yml "${options[@]}" >"$output" 2>&1 &
  pid=$!
  for ((; after > 0; after--)); do kill -0 $pid 2>/dev/null || break; sleep 1; done
  if kill -9 $pid 2>/dev/null; then
    wait $pid 2>/dev/null
    no_executors && printf 'killed in %s\n' "$(grep -oE '^(TASK|RUNNING HANDLER) \[[^]]*' "$output" | tail -1)"
  else
    wait $pid || { tail -25 "$output"; return 1; }
    echo 'it had finished'
  fi
}

# Between the kills, etcd always has its majority, so the API answers at some node.
answers_between() { eventually 60 has_quorum && eventually 60 kubectl node3 get --raw=/readyz; }

operation_upgrade_kills() {
  local number seed=${WINDLASS_SEED:-$(date +%s)}
  rm -f "$log/cluster"
  export WINDLASS_LAB_RELEASE; WINDLASS_LAB_RELEASE=$(older_release)
  cluster three
  rm -f "$log/cluster"
  holds 'objects of an application' make_objects
  holds 'a node asks the API and the service' load node3
  export WINDLASS_LAB_RELEASE; WINDLASS_LAB_RELEASE=$(newer_release)
  RANDOM=$seed
  echo "  WINDLASS_SEED=$seed repeats the times of these kills"
  for number in 1 2 3 4 5 6 7 8 9 10; do
    holds "upgrade.yml is killed ($number)" upgrade_killed $number
    sed 's/^/          /' "$operation/upgrade.yml-is-killed--$number-.log"
    holds "the cluster answers ($number)" answers_between
  done
  holds 'upgrade.yml finishes' run upgrade.log upgrade
  load_ends node3 >"$operation/load"
  sed 's/^/          /' "$operation/load" | head -1
  holds 'a node lost few requests to the API and the service' few_lost "$operation/load"
  holds 'every node has the release' running "$(newer_release)"
  holds 'no node is cordoned' none_cordoned
  holds 'the objects are the same ones' objects_came_back
  holds 'the service answers on every node' answer_everywhere
  holds 'upgrade.yml changes nothing' unchanged upgrade
  holds 'cluster.yml changes nothing' unchanged cluster
}

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

# ---- clone ----

# The first cluster's objects, certificates and nodes, which show a change.
first_state() {
  kubectl node1 get nodes,pods,deployments,services,secrets,configmaps,csr --all-namespaces --no-headers \
    --output 'custom-columns=:.kind,:.metadata.namespace,:.metadata.name,:.metadata.uid,:.spec.nodeName,:.data'
  on node1 'cat /etc/kubernetes/ssl/*.crt | sha256sum'
}
first_unchanged() { first_state | diff "$operation/before" -; }
# Both directions are counted, and nothing is dropped.
count_packets() {
  local node
  for node in node2 node3; do on node1 "iptables -t raw -A PREROUTING -s $(address $node); iptables -t raw -A OUTPUT -d $(address $node)" || return 1; done
}
no_packets() { [ "$(on node1 "iptables -t raw -L -nvx | awk '\$1 ~ /^[0-9]+\$/ { sum += \$1 } END { print sum + 0 }'")" = 0 ]; }
copy_has_its_nodes() {
  kubectl node2 get nodes
  [ "$(kubectl node2 get nodes --no-headers | awk '{ print $1, $2 }' | xargs)" = 'node2 Ready node3 Ready' ]
}
copy_has_objects() {
  [ "$(kubectl node2 --namespace shop get secret kept -o 'jsonpath={.data.key}' | base64 -d)" = value ] &&
    [ "$(kubectl node2 get namespace shop -o 'jsonpath={.metadata.uid}')" = "$(cat "$operation/uid")" ]
}
copy_answers() {
  eventually 120 kubectl node2 rollout status deployment/hello --timeout 60s && eventually 60 answers node2 node2 && eventually 60 answers node3 node2
}
# Its own API's endpoint, and no name or address of the first cluster in etcd.
copy_is_its_own() {
  [ "$(kubectl node2 get endpoints kubernetes -o 'jsonpath={.subsets[*].addresses[*].ip}')" = "$(address node2)" ] || return 1
  on node2 "set -a; . /etc/etcdctl.env; etcdctl get --prefix /registry -w fields" >"$operation/stored" || return 1
  ! awk -v pattern="$(address node1)[^0-9]" '/^"Key"/ { key = $3 } /^"Value"/ && $0 ~ pattern { print key }' "$operation/stored" | grep . &&
    ! grep -E '^"Key".*/(.*-)?node1"$' "$operation/stored"
}

# tests/lab/clone/run clones two hosts onto three, kills a run, and shows more refusals.
operation_clone() {
  local nodes=node1 inventory=$log/first
  holds '3 hosts start' hosts_up 3
  grouped "$inventory" node1 node1 node1
  grouped "$log/copy" node2 node2 'node2 node3'
  holds 'their settings' settings
  nodes='node2 node3' inventory=$log/copy
  holds 'those of the others' settings
  nodes=node1 inventory=$log/first
  holds 'cluster.yml makes the first cluster' run cluster.log cluster
  holds 'its node is Ready' eventually 60 all_ready
  holds 'a Deployment answers' deployment
  holds 'objects of an application' make_objects
  rm -rf "$log/backups"
  holds 'it is backed up' run backup.log backup
  holds 'packets to the other hosts are counted' count_packets
  first_state >"$operation/before"
  inventory=$log/copy
  local archive; archive=$(newest_archive)
  holds 'clone.yml is refused without a confirmation' refused refused.log 'Nothing was done' clone -e backup_archive="$archive"
  holds '--check shows the clone' run check.log clone --check -e backup_archive="$archive"
  holds 'it left the hosts bare' on node2 '! test -e /etc/kubernetes'
  holds 'clone.yml makes a second cluster' run clone.log clone -e restore_confirmation=yes -e backup_archive="$archive"
  holds 'it has its own nodes' eventually 60 copy_has_its_nodes
  holds 'it has the objects of the first one' copy_has_objects
  holds 'its Deployment answers on every node' copy_answers
  holds 'it names no host of the first cluster' copy_is_its_own
  holds 'cluster.yml changes nothing' unchanged cluster
  holds 'a second clone onto it is refused' refused again.log 'is part of a cluster' clone -e restore_confirmation=yes -e backup_archive="$archive"
  holds 'the first cluster has not changed' first_unchanged
  holds 'and no packet went between them' no_packets
}

# ---- adopt ----

adopt() { "$windlass" playbook "$@" playbooks/adopt.yml -e "adopt_directory=$log/adopted"; }
by_hand() { tests/lab/adopt/cluster.sh "$windlass" "$cache/artifacts"; }

# Hosts without groups, and what they do not show: where files come from, and that the machine's control groups are accepted.
given() {
  mkdir -p "$log/given" "$log/adopted/group_vars/all"
  "$windlass" lab inventory --format yaml | sed '/^  children:/,$d; /etcd_member_name:/d' >"$log/given/hosts.yml"
  { sed '/^# Everything runs/,$d' inventory/lab/group_vars/all/all.yml; echo 'kube_cgroup_v1_allowed: true'; } \
    >"$log/adopted/group_vars/all/lab.yml"
}
unread_host_named() {
  adopt -i "$log/given" --limit node1 >"$operation/adopt.log" || { tail -25 "$operation/adopt.log"; return 1; }
  grep -q 'the host node2, which was not read' "$operation/adopt.log"
}

# A pod of the worker and the API server are asked ten times a second, until `asking_ends`.
asking() {
  local pod
  kubectl node1 apply -f - <tests/lab/hello.yml && eventually 180 kubectl node1 rollout status deployment/hello --timeout 60s || return 1
  pod=$(kubectl node1 get pods --selector app=hello --output 'jsonpath={.items[0].status.podIP}' \
    --field-selector spec.nodeName=node2,status.phase=Running) || return 1
  on node1 "cat >/root/ask; : >/root/asked; systemd-run --quiet --unit=ask sh /root/ask $pod" <<'ASK'
own=$(hostname -I | cut -d' ' -f1)
while sleep 0.1; do
    curl -sf -m 1 -o /dev/null "http://$1:8080/" && echo pod || echo 'pod lost'
    [ "$(curl -sk -m 1 "https://$own:6443/readyz")" = ok ] && echo api || echo 'api lost'
done >>/root/asked
ASK
}
asking_ends() { on node1 'systemctl stop ask; sort /root/asked | uniq -c'; }
pod_always_answered() {
  asking_ends >"$operation/asked"
  cat "$operation/asked"
  grep -q ' pod$' "$operation/asked" && ! grep 'pod lost' "$operation/asked"
}
check_predicts_nothing() { run check.log cluster --check && recap "$operation/check.log" 'changed=0 '; }

operation_adopt() {
  local nodes='node1 node2' inventory=$log/adopted
  holds '2 hosts start' hosts_up 2
  holds 'kubeadm makes a cluster by hand' by_hand
  given
  holds 'adopt.yml writes its inventory from the control plane, and names the other host' unread_host_named
  holds 'adopt.yml writes it from both hosts' adopt -i "$log/adopted" -e adopt_overwrite=true
  holds 'a pod and the API are asked' asking
  holds 'cluster.yml takes the cluster over' run cluster.log cluster
  holds 'the pod was never away' pod_always_answered
  holds 'its nodes are Ready' eventually 60 all_ready
  holds 'cluster.yml changes nothing' unchanged cluster
  holds '--check predicts nothing' check_predicts_nothing
}

# ---- conformance ----

conforms() {
  run conformance.log conformance -e conformance_report="$operation/conformance.json" &&
    grep -q '"passed": true' "$operation/conformance.json" || { grep -E ' fail ' "$operation/conformance.log"; return 1; }
}

operation_conformance() {
  local skipped=kinds,objects,watch,definitions,collection,settings,tokens,rbac,daemonset,statefulset,volumes,job,cronjob,init,probes
  skipped+=,clusterip,headless,nodeport,loadbalancer,externalname,quota,admission,eviction,exec,logs,portforward
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
  # A folder of archives that somebody emptied is no reason to restart anything.
  holds 'archives of a node are lost' on node2 'rm /var/cache/kubernetes-releases/*.t*z'
  holds '--check predicts that they are fetched, and nothing else' only_fetched --check
  holds 'so it is' only_fetched
}
only_fetched() {
  run fetched.log cluster "$@" || return 1
  awk '/^TASK/ { task = $0 } /^changed:/ { print task }' "$operation/fetched.log" | sort -u >"$operation/fetched"
  cat "$operation/fetched"
  [ "$(wc -l <"$operation/fetched")" = 1 ] && grep -q 'artifacts : Fetch archives' "$operation/fetched"
}

# ---- migrate-runtime ----

# every_runtime NAME: all nodes report it
every_runtime() {
  kubectl node1 get nodes -o wide
  [ "$(kubectl node1 get nodes -o 'jsonpath={.items[*].status.nodeInfo.containerRuntimeVersion}' | tr ' ' '\n' | sed 's/:.*//' | sort -u)" = "$1" ]
}
no_docker() { local node; for node in $nodes; do on "$node" '! systemctl is-active -q docker && ! pgrep -x dockerd' || return 1; done; }

operation_migrate_runtime() {
  local nodes='node1 node2' inventory=$log/docker
  holds 'the mirror has the packages of `make packages`' test -d "$cache/artifacts/packages"
  holds '2 hosts start' hosts_up 2
  grouped "$inventory" node1 node1 "$nodes"
  echo 'container_manager: docker' >"$inventory/group_vars/all/runtime.yml"
  holds 'their settings' settings
  holds 'their packages' "$windlass" playbook -i "$inventory" tests/lab/packages.yml
  holds 'cluster.yml makes a cluster with Docker' run cluster.log cluster
  holds 'every node has Docker' every_runtime docker
  holds 'a Deployment answers on every node' deployment
  kubectl node1 create configmap kept --from-literal=key=value >/dev/null
  echo 'container_manager: containerd' >"$inventory/group_vars/all/runtime.yml"
  holds 'cluster.yml refuses to change it' refused refused.log migrate_runtime.yml cluster
  holds '--check of the migration' run check.log migrate_runtime --check
  holds 'it changed nothing' every_runtime docker
  holds 'migrate_runtime.yml replaces it on both nodes' run migrate.log migrate_runtime
  holds 'every node has containerd' every_runtime containerd
  holds 'its nodes are Ready' eventually 60 all_ready
  holds 'Docker is gone' no_docker
  holds 'objects are there' kubectl node1 get configmap kept
  holds 'the Deployment answers on every node' answer_everywhere
  holds 'cluster.yml applies what depends on the runtime' run after.log cluster
  holds 'cluster.yml changes nothing' unchanged cluster
}

# ---- migrate-network ----

# A DaemonSet keeps a pod on every node, also on a drained one, and a service of the pods that are ready.
daemons() {
  kubectl node1 apply -f - <<'DAEMONS' && eventually 120 kubectl node1 rollout status daemonset/daemon --timeout 60s
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: daemon}
spec:
  selector: {matchLabels: {app: daemon}}
  template:
    metadata: {labels: {app: daemon}}
    spec:
      tolerations: [{operator: Exists}]
      containers:
        - {name: hello, image: "docker.io/windlass/hello:1.0", imagePullPolicy: Never}
DAEMONS
}
daemon_pod() {
  kubectl node1 get pods --selector app=daemon --field-selector "spec.nodeName=$1,status.phase=Running" \
    --output 'jsonpath={.items[0].status.podIP}'
}
# Every node, and the pod on it, reaches the pod of every node.
daemons_meet() {
  local from to target
  for to in $nodes; do
    target=$(daemon_pod "$to") && [ -n "$target" ] || return 1
    for from in $nodes; do
      on "$from" "curl -sf -m 3 -o /dev/null http://$target:8080/ &&
        nsenter --target \$(pgrep -n -x hello) --net curl -sf -m 3 -o /dev/null http://$target:8080/" || { echo "$from does not reach $target"; return 1; }
    done
  done
}
cni_files() { local node; for node in $nodes; do on "$node" 'ls /etc/cni/net.d' || return 1; done | sort -u | xargs; }
# network SETTING...: as the inventory has it
network() { printf '%s\n' "$@" >"$inventory/group_vars/all/network.yml"; }
migrate() { run "$1.log" migrate_network; }

# settled FILE: the nodes and their pods reach each other, and only the file of the chosen network is left
settled() {
  [ "$(cni_files)" = "$1" ] || { cni_files; return 1; }
  eventually 60 daemons_meet && answer_everywhere && on node1 '! test -e /etc/kubernetes/network-migration'
}
none_of_bridge() {
  local node
  for node in $nodes; do
    on "$node" '! ip link show cni0 && ! ip link show kube-vxlan && ! test -e /usr/local/sbin/kube-pod-routes &&
      ! test -e /etc/systemd/system/kube-pod-routes.service && [ -z "$(ip route show proto 157)" ] && ! iptables -S | grep WINDLASS-PODS' || return 1
  done
}
# migration_killed TASK: during that task on the first node
migration_killed() {
  "$windlass" playbook -i "$inventory" playbooks/migrate_network.yml >"$operation/killed.log" 2>&1 &
  local pid=$! code
  eventually 300 grep -q "TASK \[migrate_network : $1\]" "$operation/killed.log"
  code=$?
  kill -9 $pid; wait $pid 2>/dev/null
  no_executors && return $code
}

operation_migrate_network() {
  local custom=(kube_network_plugin:\ custom_cni "custom_cni_manifests: [$PWD/tests/lab/cni/simple.yml.j2]" \
    'custom_cni_leftovers: [/etc/cni/net.d/20-simple.conflist]')
  rm -f "$log/cluster"
  cluster three
  rm -f "$log/cluster"
  holds 'a DaemonSet on every node' daemons
  holds 'its pods reach each other' eventually 60 daemons_meet
  network "${custom[@]}"
  holds 'cluster.yml refuses another network' refused refused.log 'playbooks/migrate_network.yml replaces it' cluster
  holds '--limit is refused' refused limited.log 'limit leaves out node2, node3' migrate_network --limit node1
  holds '--check of the migration' run check.log migrate_network --check
  holds 'it changed nothing' settled 10-windlass.conflist
  holds 'a node asks the API and the service' load node3
  holds 'the migration from bridge to custom_cni is killed' migration_killed 'Wait until the former pods have ended'
  holds 'cluster.yml is refused meanwhile' refused meanwhile.log 'playbooks/migrate_network.yml replaces it' cluster
  holds 'all pods reach each other' eventually 60 daemons_meet
  network 'kube_network_plugin: bridge' 'custom_cni_leftovers: [/etc/cni/net.d/20-simple.conflist]'
  holds 'with the former network in the inventory, a run returns to it' migrate back
  holds 'the network is bridge as before' settled 10-windlass.conflist
  network "${custom[@]}"
  holds 'another run changes it to custom_cni' migrate custom
  load_ends node3 >"$operation/load"
  sed 's/^/          /' "$operation/load"
  holds 'a node lost few requests to the API and the service' few_lost "$operation/load"
  holds 'the network is custom_cni' settled 20-simple.conflist
  holds 'nothing of bridge is left' none_of_bridge
  holds 'cluster.yml applies what depends on the network' run after.log cluster
  holds 'cluster.yml changes nothing' unchanged cluster
  network 'kube_network_plugin: bridge' 'bridge_routing: vxlan'
  holds 'the change to bridge with VXLAN is killed while kubelet of a node is stopped' migration_killed 'Wait until Services leave these pods out'
  holds 'another run changes it to bridge with VXLAN' migrate vxlan
  holds 'the network is bridge' settled 10-windlass.conflist
  network 'kube_network_plugin: macvlan'
  holds 'it changes to macvlan' migrate macvlan
  holds 'the network is macvlan' settled 10-windlass-macvlan.conflist
  holds 'nothing of bridge is left again' none_of_bridge_but_rules
  network 'kube_network_plugin: bridge'
  holds 'it changes to bridge with routes' migrate routes
  holds 'the network is bridge once more' settled 10-windlass.conflist
  holds 'nothing is to be done' unchanged migrate_network
  holds 'cluster.yml changes nothing at the end' unchanged cluster
}
# macvlan has routes and rules under the same names.
none_of_bridge_but_rules() {
  local node
  for node in $nodes; do on "$node" '! ip link show cni0 && ! ip link show kube-vxlan && ! test -e /usr/local/sbin/kube-pod-routes' || return 1; done
}

# ---- balancers ----

# api_load NODE: asks the API where the node looks for it, ten times a second until api_load_ends. A busy machine is no reason
# for a failure, so it waits long.
api_load() {
  on "$1" 'cat >/root/api-load; systemctl stop api-load 2>/dev/null; systemd-run --quiet --unit=api-load sh /root/api-load' <<'LOAD'
: >/root/api-load.failed; : >/root/api-load.asked
while sleep 0.1; do
  endpoint=$(cat /etc/kubernetes/api-endpoint)
  echo >>/root/api-load.asked
  curl -skf -m 20 -o /dev/null "https://$endpoint/readyz" || echo "$(date +%T.%N) $endpoint: curl $?" >>/root/api-load.failed
done
LOAD
}
api_load_ends() { on "$1" 'systemctl stop api-load; wc -l </root/api-load.asked; cat /root/api-load.failed'; }

# nothing_of NAME: neither a process, a pod, a unit nor settings of that load balancer are left
nothing_of() {
  local node paths pattern
  case $1 in
    haproxy) pattern='haproxy .*/etc/haproxy/haproxy.cfg' paths=/etc/haproxy/haproxy.cfg.before-kubernetes ;;
    nginx) pattern='nginx.*kube-nginx' paths='/etc/systemd/system/kube-nginx.service /etc/kubernetes/nginx /run/kube-nginx' ;;
    haproxy-pod) pattern=/kube-api.cfg paths='/etc/kubernetes/manifests/haproxy.yml /etc/kubernetes/haproxy' ;;
    nginx-pod) pattern=/kube-api.conf paths='/etc/kubernetes/manifests/nginx-proxy.yml /etc/kubernetes/nginx' ;;
    keepalived) pattern=kube-keepalived paths='/etc/systemd/system/kube-keepalived.service /etc/kubernetes/keepalived /run/kube-keepalived' ;;
    *) return 0 ;;
  esac
  for node in $nodes; do
    on "$node" "! pgrep -af '$pattern' | grep -v pgrep && ! ls -d $paths /etc/kubernetes/components/load_balancer-$(tr - _ <<<"$1") 2>/dev/null &&
      ! systemctl is-active kube-api-handover" || { echo "on $node"; return 1; }
  done
}

# balancer FROM TO SETTING...: cluster.yml goes over while every node asks the API; only requests in flight are lost. An API server
# that answers (22 of curl) but is not ready, as on a busy machine, was reached.
balancer() {
  local from=$1 to=$2 node; shift 2
  printf '%s\n' "$@" >"$inventory/group_vars/all/balancer.yml"
  for node in $nodes; do api_load "$node" || return 1; done
  run "$from-$to.log" cluster || return 1
  for node in $nodes; do
    api_load_ends "$node" | grep -v 'curl 22$' >"$operation/$from-$to.$node"
    awk -v node="$node" 'NR == 1 { asked = $0 } END { print node ": " NR - 1 " of " asked " requests lost" (NR > 1 ? ", the last: " $0 : "") }' \
      "$operation/$from-$to.$node"
  done
  for node in $nodes; do [ "$(wc -l <"$operation/$from-$to.$node")" -le 3 ] || return 1; done
}

# goes_over FROM TO SETTING...
goes_over() {
  holds "cluster.yml goes from $1 to $2" balancer "$@"
  sed 's/^/          /' "$operation/cluster.yml-goes-from-$1-to-$2.log"
  holds "nothing of $1 is left beside $2" eventually 30 nothing_of "$1"
  holds "all nodes are Ready with $2" eventually 60 all_ready
  holds "cluster.yml changes nothing with $2" unchanged cluster
}

operation_balancers() {
  local nodes='node1 node2 node3' inventory=$log/balanced network
  holds 'the mirror has the packages of `make packages`' test -d "$cache/artifacts/packages"
  rm -f "$log/cluster"
  holds '3 hosts start' hosts_up 3
  grouped "$inventory" 'node1 node2' node1 "$nodes"
  network=$(address node1) network=${network%.*}
  holds 'their settings' settings
  holds 'their packages' "$windlass" playbook -i "$inventory" tests/lab/packages.yml
  holds 'cluster.yml makes a cluster with haproxy' run cluster.log cluster
  holds 'a Deployment answers on every node' deployment
  goes_over haproxy nginx 'loadbalancer_apiserver_type: nginx'
  goes_over nginx haproxy-pod 'loadbalancer_apiserver_deployment_type: pod' 'haproxy_image_tag: "{{ haproxy_version }}"'
  goes_over haproxy-pod nginx-pod 'loadbalancer_apiserver_type: nginx' 'loadbalancer_apiserver_deployment_type: pod' \
    'nginx_image_tag: "{{ nginx_version }}"'
  goes_over nginx-pod keepalived 'keepalived_enabled: true' "keepalived_vip: $network.100"
  goes_over keepalived none 'loadbalancer_apiserver_localhost: false'
  goes_over none haproxy 'loadbalancer_apiserver_type: haproxy'
  holds 'the Deployment answers on every node' answer_everywhere
}

# ---- backups ----

# s3 SERVICE OPTION...: a signed request to the S3 server on this machine
s3() {
  local service=$1; shift
  curl -sS --fail --aws-sigv4 "aws:amz:us-east-1:$service" --user "${s3_keys:-none:none}" "$@"
}
# s3_put NAME <CONTENT, and names of the objects in the bucket. moto expects another signature than S3 where a query has a slash, so
# archives are in no folder.
s3_put() {
  cat >"$operation/object"
  s3 s3 -H "x-amz-content-sha256: $(sha256sum <"$operation/object" | cut -d' ' -f1)" --upload-file "$operation/object" "$s3_server/backups/$1"
}
in_bucket() {
  s3 s3 -H "x-amz-content-sha256: $(sha256sum </dev/null | cut -d' ' -f1)" "$s3_server/backups?list-type=2" |
    tr '<' '\n' | sed -n 's|^Key>||p' | sort
}

# moto checks signatures after the four requests that make a user, its keys and the bucket.
s3_starts() {
  s3_server=http://$(address node1 | sed 's/[0-9]*$/1/'):5599
  INITIAL_NO_AUTH_ACTION_COUNT=4 moto_server -H "${s3_server:7:-5}" -p 5599 >"$operation/moto.log" 2>&1 &
  s3_process=$!
  trap 'kill $s3_process' EXIT
  eventually 60 curl -s -o /dev/null "$s3_server/moto-api/" || return 1
  local version=Version=2010-05-08
  s3 iam -d "Action=CreateUser&UserName=lab&$version" "$s3_server/" && s3 iam -d "Action=PutUserPolicy&UserName=lab&PolicyName=all&$version" \
    --data-urlencode 'PolicyDocument={"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}' "$s3_server/" &&
    s3 iam -d "Action=CreateAccessKey&UserName=lab&$version" "$s3_server/" >"$operation/keys" &&
    s3 s3 -X PUT -H "x-amz-content-sha256: $(sha256sum </dev/null | cut -d' ' -f1)" "$s3_server/backups" || return 1
  s3_keys=$(tr '<' '\n' <"$operation/keys" | sed -nE 's/^(AccessKeyId|SecretAccessKey)>//p' | paste -sd:)
}

# bucket_settings SETTING...: the timer of every member makes backups, and the bucket gets them
bucket_settings() {
  printf '%s\n' "backup_s3_url: $s3_server/backups" "backup_s3_access_key: ${s3_keys%:*}" "backup_s3_secret_key: ${s3_keys#*:}" \
    backup_schedule_spread:\ 0 "$@" >"$inventory/group_vars/all/bucket.yml"
}

# old_archives: of this cluster from 1 to 6 days ago on every host, here and in the bucket, and what no retention may touch
old_archives() {
  local days name node
  mkdir -p "$log/backups"
  for days in 1 2 3 4 5 6; do
    name=cluster.local-$(date -u -d "-$days days" +%Y%m%dT%H%M%SZ).tar.gz.age
    echo "$days" | s3_put "$name" && echo "$days" | s3_put "$name.sha256" && echo "$days" >"$log/backups/$name" || return 1
    for node in $nodes; do on "$node" "mkdir -p /var/backups/kubernetes && echo $days >/var/backups/kubernetes/$name" </dev/null || return 1; done
  done
  for name in "cluster.local-$(date -u -d '+9 days' +%Y%m%d)T000000Z.tar.gz" other-20200101T000000Z.tar.gz cluster.local-notes.txt; do
    echo foreign | s3_put "$name" || return 1
  done
}
foreign_stay() { [ "$(in_bucket | grep -cE "^(cluster.local-$(date -u -d '+9 days' +%Y%m%d)|other-2020|cluster.local-notes)")" = 3 ]; }

# days PLACE...: how old the archives of before are that are left there
days_left() {
  local name days
  for days in 1 2 3 4 5 6; do
    name=cluster.local-$(date -u -d "-$days days" +%Y%m%dT)
    "$@" | grep -q "^$name.*age$" && printf '%s ' "$days"
  done
  echo
}
on_host() { on "$1" ls /var/backups/kubernetes; }

# The timer of each member has run by itself.
timers_made_archives() {
  local node
  for node in $nodes; do
    on "$node" "systemctl show --property=LastTriggerUSec --value kubernetes-backup.timer | grep -v n/a &&
      ls /var/backups/kubernetes/cluster.local-$(date -u +%Y%m%d)T*.age" || return 1
  done
}
# Each host keeps 3 archives, and the bucket 4 of all hosts, with their checksums.
counted() {
  local node
  for node in $nodes; do [ "$(on_host "$node" | grep -c 'age$')" = 3 ] || { on_host "$node"; return 1; }; done
  in_bucket
  foreign_stay && [ "$(own_in_bucket | grep -c 'age$')" = 4 ] && [ "$(own_in_bucket | grep -c 'sha256$')" = 4 ]
}
own_in_bucket() { in_bucket | grep -v "$(date -u -d '+9 days' +%Y%m%d)T" | grep '^cluster.local-2'; }
# aged: after one backup of node1, archives are left of days that the limits allow
aged() {
  local name
  days_left on_host node1; days_left in_bucket
  [ "$(days_left on_host node1)" = '1 2 3 ' ] && [ "$(days_left in_bucket)" = '1 ' ] && foreign_stay
}
# The server refuses the keys: the host keeps the archive, and the unit has failed.
wrong_keys_fail() {
  on node1 'sed -i "s/^BACKUP_S3_SECRET_KEY=.*/BACKUP_S3_SECRET_KEY=wrong/" /etc/kubernetes-backup.conf; touch /root/before
    ! systemctl start kubernetes-backup && systemctl show --property=ExecMainStatus kubernetes-backup | grep =3 &&
    journalctl --no-pager -u kubernetes-backup -n 20 | grep "could not be written to" && find /var/backups/kubernetes -name "*.age" -newer /root/before | grep .'
}
no_timer() {
  local node
  for node in $nodes; do on "$node" '! systemctl is-enabled kubernetes-backup.timer && ! ls /usr/local/bin/kubernetes-backup /etc/kubernetes-backup.conf' || return 1; done
}

operation_backups() {
  command -v moto_server >/dev/null || { echo '  left out, because this machine has no moto_server, which serves S3'; return; }
  cluster three
  s3_starts >"$operation/s3.log" 2>&1 || { cat "$operation/s3.log"; echo 'an S3 server starts' >"$operation/failed"; exit 1; }
  holds 'archives of earlier days' old_archives
  bucket_settings 'backup_schedule: "*-*-* *:*:00/20"' 'backup_keep_count: 3' 'backup_s3_keep_count: 4'
  holds 'cluster.yml installs a timer on every member' run timer.log cluster
  holds 'the timers make archives' eventually 180 timers_made_archives
  holds 'the hosts and the bucket keep as many as they may' eventually 120 counted
  bucket_settings 'backup_schedule: "02:00"' 'backup_keep_days: 4' 'backup_s3_keep_days: 2'
  holds 'cluster.yml changes the time and the retention' run days.log cluster
  holds 'further archives of earlier days' old_archives
  holds 'a backup on a member' on node1 systemctl start kubernetes-backup
  holds 'the host and the bucket keep none that are too old' aged
  holds 'cluster.yml changes nothing' unchanged cluster
  holds 'wrong keys of the bucket are a failure of the unit' wrong_keys_fail
  holds 'cluster.yml restores the keys' run keys.log cluster
  holds 'backup.yml makes an archive too' run backup.log backup
  holds 'the newest archive of the bucket is verified' run verify.log backup --tags verify -e backup_archive=s3:latest
  bucket_settings
  holds 'backup.yml removes the timer' run none.log backup --tags timer
  holds 'nothing of it is left' no_timer
  rm -r "$log/backups"
  rm -f "$inventory/group_vars/all/bucket.yml"
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
