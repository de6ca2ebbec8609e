# shellcheck shell=bash disable=SC2154
# The operations of tests/lab/operations. $operation is the folder for the logs of the one that runs.

operations=(rotate undo clone conformance bundle reconcile migrate-runtime fleet)

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

# ---- bundle ----

bundle() { "$windlass" bundle "$@"; }
hosts_without_mirror() {
  rm -f "$log/cluster"
  "$windlass" lab down
  "$windlass" lab up --nodes 2 --memory 3G "${lab_options[@]}" && on node1 "! test -e $cache/artifacts"
}
smaller() { ls -l "$1" "$2"; [ "$(stat -c %s "$1")" -lt "$(stat -c %s "$2")" ]; }

operation_bundle() {
  local nodes='node1 node2' inventory=$log/offline from to
  from=$(older_release) to=$(newer_release)
  local first=$operation/first.bundle next=$operation/next.bundle
  holds '2 hosts start that see no mirror' hosts_without_mirror
  grouped "$inventory" node1 node1 "$nodes"
  holds 'their settings' settings
  echo "ops@example.com $(cat "$log/backups.key.pub")" >"$operation/signers"
  ssh-keygen -q -t ed25519 -N '' -C other -f "$operation/other" && echo "ops@example.com $(cat "$operation/other.pub")" >"$operation/others"
  local site=(-e bundle="$first" -e bundle_allowed_signers="$operation/signers")
  export WINDLASS_LAB_RELEASE=$from
  holds 'a bundle is created' bundle create -i "$inventory" --sign "$log/backups.key" "$first"
  holds 'its signature and hashes hold' bundle verify --allowed-signers "$operation/signers" "$first"
  holds 'another signer is refused' not bundle verify --allowed-signers "$operation/others" "$first"
  holds 'so it is by cluster.yml' not run refused.log cluster -e bundle="$first" -e bundle_allowed_signers="$operation/others"
  holds 'cluster.yml makes a cluster of it' run cluster.log cluster "${site[@]}"
  holds 'its nodes are Ready' eventually 60 all_ready
  holds 'they have its release' running "$from"
  holds 'a Deployment answers on every node' deployment
  holds 'cluster.yml changes nothing' unchanged cluster "${site[@]}"
  export WINDLASS_LAB_RELEASE=$to
  holds 'a difference bundle of the next release' bundle create -i "$inventory" --since "$first" --sign "$log/backups.key" "$next"
  holds 'it is smaller' smaller "$next" "$first"
  holds 'the difference is listed' bundle diff "$first" "$next"
  holds 'its signature and hashes hold too' bundle verify --allowed-signers "$operation/signers" --base "$first" "$next"
  site=(-e bundle="$next" -e bundle_allowed_signers="$operation/signers" -e "{\"bundle_bases\": [\"$first\"]}")
  holds 'upgrade.yml upgrades from it' run upgrade.log upgrade "${site[@]}"
  holds 'all nodes have the next release' running "$to"
  holds 'the Deployment answers on every node' answer_everywhere
  holds 'upgrade.yml changes nothing' unchanged upgrade "${site[@]}"
  rm -f "$first" "$next"
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
