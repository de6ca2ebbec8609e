# shellcheck shell=bash disable=SC2154
# The steps of the end-to-end test. Each ends with 0 if what it shows holds; its output is kept and shown if not.

step() { # step TITLE FUNCTION
  local title=$1 function=$2 start=$SECONDS
  if "$function" >"$log/$function.log" 2>&1; then
    passed=$((passed + 1))
    printf 'ok      %s (%ss)\n' "$title" $((SECONDS - start))
  else
    failed=$((failed + 1))
    printf 'FAILED  %s (%ss), the end of its output:\n' "$title" $((SECONDS - start))
    tail -50 "$log/$function.log" | sed 's/^/        /'
    failures+=("$title")
    return 1
  fi
}

# A step that takes long, or shows a rarer case of what another one shows.
full_step() { [ -n "$short" ] || step "$@"; }

hosts_start() {
  "$windlass" lab down || true
  lab_up 3
}

adhoc_command() {
  "$windlass" adhoc -i "$inventory" all -m command -a uptime > "$log/uptime" || return 1
  [ "$(grep -c 'CHANGED | rc=0' "$log/uptime")" = 3 ] || { cat "$log/uptime"; return 1; }
  "$windlass" adhoc -i "$inventory" all -m setup -a 'gather_subset=min' | grep -q '"ansible_os_family": "Debian"' &&
    "$windlass" adhoc -i "$inventory" all -m copy -a 'content=hello dest=/root/hello mode=0640' &&
    "$windlass" adhoc -i "$inventory" all -m copy -a 'content=hello dest=/root/hello mode=0640' | tee "$log/again" &&
    [ "$(grep -c SUCCESS "$log/again")" = 3 ]
}

as_documented() { WINDLASS=$windlass tests/lab/documented; }

adhoc_become() {
  [ "$("$windlass" adhoc -i "$inventory" all -e ansible_user=ops -b -m command -a 'id -un' | grep -cx root)" = 3 ] &&
    [ "$("$windlass" adhoc -i "$inventory" all -e ansible_user=opspw -b -e ansible_become_password=windlass -m command -a 'id -un' | grep -cx root)" = 3 ] &&
    [ "$("$windlass" adhoc -i "$inventory" all -e ansible_user=ops -b --become-user opspw -m command -a 'id -un' | grep -cx opspw)" = 3 ]
}

told_how_a_host_is_reached() {
  "$windlass" adhoc -i "$inventory" node1 -e ansible_user=ops -b -m ping -vvv > "$log/reached" || { cat "$log/reached"; return 1; }
  for line in 'ESTABLISH SSH CONNECTION FOR USER: ops' 'authenticated by the key ' '<node1> EXEC /bin/sh' '<node1> EXEC sudo -H -S -n -p PROMPT -u root executor'; do
    grep -q -- "$line" "$log/reached" || { cat "$log/reached"; return 1; }
  done
}

wrong_sudo_password() {
  "$windlass" adhoc -i "$inventory" node1 -e ansible_user=opspw -b -e ansible_become_password=wrong-one -m command -a true > "$log/wrong" 2>&1
  local code=$?
  cat "$log/wrong"
  [ $code = 2 ] || [ $code = 4 ] || return 1
  grep -qi 'password' "$log/wrong" && ! grep -q wrong-one "$log/wrong"
}

check_bare_hosts() {
  local before after
  before=$(on node1 "find /etc /usr/local /opt/cni /var/lib -xdev -type f 2>/dev/null | grep -v '^/var/lib/\(systemd\|dbus\|private\)' | sort | xargs -d '\n' ls -l --time-style=+%s | cksum")
  play --check --diff > "$log/check.log" 2>&1 || { tail -40 "$log/check.log"; return 1; }
  after=$(on node1 "find /etc /usr/local /opt/cni /var/lib -xdev -type f 2>/dev/null | grep -v '^/var/lib/\(systemd\|dbus\|private\)' | sort | xargs -d '\n' ls -l --time-style=+%s | cksum")
  recap "$log/check.log" 'unreachable=0 +failed=0' && [ "$before" = "$after" ]
}

changed_host_key() {
  local known; known=$(mktemp)
  # A known_hosts file in which node1 has the key of node2: as if somebody stood in between.
  local file; file=$("$windlass" lab inventory | grep -o 'UserKnownHostsFile=[^ "'"'"']*' | head -1 | cut -d= -f2)
  [ -n "$file" ] || { echo 'the inventory names no known_hosts file'; "$windlass" lab inventory; return 1; }
  local one two
  one=$("$windlass" lab inventory | sed -n 's/^node1 .*ansible_host=\([^ ]*\).*/\1/p')
  two=$("$windlass" lab inventory | sed -n 's/^node2 .*ansible_host=\([^ ]*\).*/\1/p')
  grep -v "^\S*$one\b" "$file" > "$known"
  grep "^\S*$two\b" "$file" | sed "s/^\S*/$one/" >> "$known"
  "$windlass" adhoc -i "$inventory" all -m command -a hostname -e "ansible_ssh_common_args='-o UserKnownHostsFile=$known'" > "$log/key" 2>&1
  local code=$?
  cat "$log/key"; rm -f "$known"
  [ $code = 4 ] && [ "$(grep -c 'CHANGED | rc=0' "$log/key")" = 2 ] && [ "$(grep -o 'SHA256:[A-Za-z0-9+/]*' "$log/key" | sort -u | wc -l)" -ge 2 ]
}

killed_half_way() {
  "$windlass" playbook -i "$inventory" playbooks/cluster.yml > "$log/killed.log" 2>&1 &
  local pid=$!
  # Somewhere inside the preparation: binaries are being unpacked, services are being written.
  for _ in $(seq 1200); do
    grep -q 'TASK \[runtime/containerd : Write' "$log/killed.log" && break
    kill -0 $pid 2>/dev/null || { echo 'the run ended early'; tail -20 "$log/killed.log"; return 1; }
    sleep 0.5
  done
  kill -9 $pid; wait $pid 2>/dev/null
  # The executors notice that the controller is gone.
  for node in node1 node2 node3; do eventually 30 no_executor $node || return 1; done
}

first_run() {
  WINDLASS_STATISTICS=$log/first.statistics play --resume > "$log/first.log" 2>&1 || return 1
  grep -q '^resumed: [0-9]* results\? of the earlier run' "$log/first.log" || { echo 'nothing was resumed'; return 1; }
  recap "$log/first.log" 'unreachable=0 +failed=0'
}

nodes_ready() { eventually 60 three_ready && kubectl node1 get nodes -o wide; }
three_ready() { [ "$(kubectl node1 get nodes --no-headers | awk '$2 == "Ready" && $3 ~ /control-plane|master/' | wc -l)" = 3 ]; }

second_run() {
  play > "$log/second.log" 2>&1 || { tail -30 "$log/second.log"; return 1; }
  recap "$log/second.log" 'changed=0 +unreachable=0 +failed=0' || { grep -B3 '^changed:' "$log/second.log"; return 1; }
}

check_finished() {
  play --check --diff > "$log/check2.log" 2>&1 || { tail -30 "$log/check2.log"; return 1; }
  recap "$log/check2.log" 'changed=0 +unreachable=0 +failed=0' || { grep -B3 '^changed:' "$log/check2.log"; return 1; }
}

adopted() {
  # The hosts do not show where files come from, nor that the machine's control groups are accepted.
  mkdir -p "$log/adopted/group_vars/all"
  { sed '/^# Everything runs/,$d' inventory/lab/group_vars/all/all.yml; echo 'kube_cgroup_v1_allowed: true'; } \
    > "$log/adopted/group_vars/all/lab.yml"
  "$windlass" playbook -i "$inventory" playbooks/adopt.yml -e "adopt_directory=$log/adopted" > "$log/adopted.log" 2>&1 &&
    grep -q '"no difference"' "$log/adopted.log" || { tail -40 "$log/adopted.log"; return 1; }
}

network_migrated() {
  local pod
  pod=$(kubectl node1 get pods --selector app=hello --field-selector spec.nodeName=node2 \
    --output 'jsonpath={.items[0].status.podIP}') || return 1
  # From a pod of node1 to one of node2, until the file goes.
  on node1 'cat >/root/ask && touch /root/asking && sh /root/ask' <<END >"$log/asked" &
pid=\$(pgrep -x hello | head -n 1) answers=0 failures=0
while [ -e /root/asking ]; do
    nsenter --target "\$pid" --net curl -sf -m 3 -o /dev/null http://$pod:8080/ && answers=\$((answers + 1)) ||
        failures=\$((failures + 1))
done
echo "\$answers answers, \$failures failures"
END
  local client=$! way code=0
  sleep 2
  for way in vxlan routes; do
    "$windlass" playbook -i "$inventory" playbooks/migrate_network.yml -e "bridge_routing=$way" >"$log/$way.log" 2>&1 &&
      recap "$log/$way.log" 'unreachable=0 +failed=0' || { tail -30 "$log/$way.log"; code=1; }
    on node1 "ip route | grep kube-vxlan" >"$log/$way.routes"
    [ "$way" != vxlan ] || [ -s "$log/$way.routes" ] || { echo 'no route by VXLAN'; code=1; }
  done
  on node1 rm /root/asking
  wait $client
  cat "$log/asked"
  [ $code = 0 ] && grep -q '^[1-9][0-9]* answers, 0 failures' "$log/asked"
}

cis_report() {
  "$windlass" playbook -i "$inventory" playbooks/cis.yml --check -e "cis_report=$log/cis.json" > "$log/cis.log" 2>&1 || { tail -30 "$log/cis.log"; return 1; }
  recap "$log/cis.log" 'changed=0 +unreachable=0 +failed=0' && grep -q '"1.2.8 .* pass ' "$log/cis.log" && grep -q '"4.2.1 .* pass ' "$log/cis.log" &&
    ! grep -q '(not read)' "$log/cis.log"
}

certificates() { "$windlass" playbook -i "$inventory" playbooks/certificates.yml -e "certificates_report=$log/certificates.json" "$@"; }

reconciled() {
  printf 'repair: [drift]\n' >"$log/policy.yml"
  on node2 systemctl stop kubelet
  # Pods may still become ready, so the exit code says nothing yet.
  "$windlass" reconcile -i "$inventory" --policy "$log/policy.yml" --once >"$log/reconcile.log" 2>&1
  grep -q 'node.kubelet node2: kubelet does not answer' "$log/reconcile.log" && grep -q '; repaired$' "$log/reconcile.log" &&
    on node2 systemctl is-active --quiet kubelet || { grep -v '^ok\|^skipping' "$log/reconcile.log" | tail -60; return 1; }
}

certificates_report() {
  certificates --check > "$log/certificates.log" 2>&1 || { tail -30 "$log/certificates.log"; return 1; }
  recap "$log/certificates.log" 'changed=0 +unreachable=0 +failed=0' && grep -q '"file": "/etc/kubernetes/ssl/apiserver.crt"' "$log/certificates.json" || return 1
  # For monitoring, a certificate that ends soon is a failure.
  ! certificates -e certificates_warn_days=400 > "$log/certificates-soon.log" 2>&1 && grep -q ' soon on node3, ends ' "$log/certificates-soon.log"
}

certificates_renewed() {
  local wanted before node
  wanted="{certificates_renew: [scheduler.conf, kubelet-client], certificates_issued_before: '$(date -u '+%Y-%m-%d %H:%M:%S')'}"
  before=$(for node in node1 node2 node3; do on $node 'pgrep -x kube-scheduler; readlink /var/lib/kubelet/pki/kubelet-client-current.pem'; done)
  certificates --tags renew -e "$wanted" > "$log/renewed.log" 2>&1 && recap "$log/renewed.log" 'unreachable=0 +failed=0' || { tail -30 "$log/renewed.log"; return 1; }
  for node in node1 node2 node3; do on $node 'pgrep -x kube-scheduler; readlink /var/lib/kubelet/pki/kubelet-client-current.pem'; done | grep -Fx "$before" && return 1
  certificates --tags renew -e "$wanted" > "$log/renewed-again.log" 2>&1 && recap "$log/renewed-again.log" 'changed=0 +unreachable=0 +failed=0'
}

verify() { "$windlass" playbook -i "$inventory" playbooks/verify.yml -e "verify_report=$log/verify.json" "$@"; }

# A request to a busy component may exceed its time, which counts as a failure.
verify_healthy() {
  eventually 60 verified || { tail -70 "$log/verify.log"; return 1; }
  recap "$log/verify.log" 'changed=0 +unreachable=0 +failed=0' && grep -q '"healthy": true' "$log/verify.json" || return 1
  for check in etcd.members cluster.nodes network.pod network.node network.service network.port volume.claim volume.write; do
    grep -qE "\"$check +pass " "$log/verify.log" || { echo "$check does not pass"; return 1; }
  done
}

# A volume that was claimed is not given to another claim, so each attempt has a new one.
verified() {
  kubectl node1 delete persistentvolume lab --ignore-not-found && kubectl node1 apply -f - <tests/lab/volume.yml &&
    verify -e verify_network=true -e '{verify_volumes: [lab]}' >"$log/verify.log" 2>&1
}

# A second snapshot changes no file, and check mode shows an object that was made after it and nothing of its value.
snapshot() { "$windlass" playbook -i "$inventory" playbooks/snapshot.yml -e snapshot_dir="$log/snapshot" "$@"; }
state_in_files() {
  rm -rf "$log/snapshot"
  snapshot > "$log/snapshot.log" 2>&1 && snapshot > "$log/snapshot2.log" 2>&1 || { tail -40 "$log"/snapshot*.log; return 1; }
  recap "$log/snapshot2.log" 'changed=0 +unreachable=0 +failed=0' || { grep changed: "$log/snapshot2.log"; return 1; }
  grep -q 'name: etcd3' "$log/snapshot/actual/etcd.yml" && grep -q 'kind: DaemonSet' "$log/snapshot/actual/objects/kube-system.yml" &&
    grep -q 'network/bridge' "$log/snapshot/expected/node3.yml" && grep -q kube-apiserver.yaml "$log/snapshot/actual/hosts/node2.yml" ||
    { ls -R "$log/snapshot"; return 1; }
  kubectl node1 create secret generic new-here --from-literal=password=hunter2
  snapshot --check --diff > "$log/snapshot3.log" 2>&1
  local code=$?
  kubectl node1 delete secret new-here
  [ $code = 0 ] && grep -q '^+ *name: new-here' "$log/snapshot3.log" && ! grep -q "$(printf hunter2 | base64)" "$log/snapshot3.log" &&
    ! grep -rq new-here "$log/snapshot"
}

verify_names_a_stopped_member() {
  on node3 systemctl stop etcd
  verify > "$log/stopped.log" 2>&1
  local code=$?
  on node3 systemctl start etcd
  sed -n '/Show the report/,$p' "$log/stopped.log"
  [ $code = 2 ] && grep -q 'node3: etcd.service is inactive' "$log/stopped.log" && grep -qE '"etcd.health +fail ' "$log/stopped.log" &&
    grep -q '"healthy": false' "$log/verify.json"
}

deployment_answers() {
  kubectl node1 apply -f - < tests/lab/hello.yml || return 1
  eventually 180 spread_over 3 || return 1
  for node in node1 node2 node3; do eventually 60 answers $node || return 1; done
}

objects_of_the_cluster() {
  "$windlass" playbook -i "$inventory" tests/lab/objects.yml > "$log/objects.log" 2>&1 || { tail -30 "$log/objects.log"; return 1; }
  eventually 120 spread_over 3
}

# A program of an archive with its old size and time, and a key of etcd with another mode.
altered_files() {
  on node2 'cd /usr/local/bin && cp -p ctr /root/ctr && printf X | dd of=ctr bs=1 seek=1000 conv=notrunc status=none &&
    touch -r /root/ctr ctr && cd /etc/ssl/etcd/ssl && chmod 0666 ca-key.pem && rm admin-node1.pem' || return 1
  on node3 'cd /etc/kubernetes && chmod 0644 ssl/ca.key admin.conf && rm manifests/kube-apiserver.yaml' || return 1
  play --tags artifacts,etcd,control-plane > "$log/altered.log" 2>&1 || { tail -30 "$log/altered.log"; return 1; }
  on node2 'cmp /root/ctr /usr/local/bin/ctr && rm /root/ctr && cd /etc/ssl/etcd/ssl && [ "$(stat -c %a ca-key.pem)" = 600 ] &&
    [ -s admin-node1.pem ]' && on node3 'cd /etc/kubernetes && [ "$(stat -c %a ssl/ca.key admin.conf | sort -u)" = 600 ] &&
    [ -s manifests/kube-apiserver.yaml ]'
}

changed_value() {
  play -e loadbalancer_apiserver_healthcheck_port=8082 > "$log/value.log" 2>&1 || { tail -30 "$log/value.log"; return 1; }
  # Only the load balancer's tasks and its handler may change anything.
  awk '/^(TASK|RUNNING HANDLER) /{task=$0} /^changed: /{print task}' "$log/value.log" | sort -u > "$log/value.changed"
  cat "$log/value.changed"
  [ -s "$log/value.changed" ] && ! grep -v '\[load_balancer/haproxy : ' "$log/value.changed" && grep -q 'RUNNING HANDLER' "$log/value.changed" &&
    changed_back
}

# changed_back: the cluster is as the inventory says
changed_back() { play > "$log/back.log" 2>&1 || { tail -30 "$log/back.log"; return 1; }; }

# started NODE: when its containerd was
started() { on "$1" systemctl show --property=ExecMainStartTimestampMonotonic --value containerd.service; }

# killed_at TASK ARGUMENTS...: a run that ends the moment a host has changed in that task; prints the host
killed_at() {
  local task=$1 line there='' host=''
  shift
  ( echo "$BASHPID" > "$log/at.pid"; exec "$windlass" playbook -i "$inventory" playbooks/cluster.yml "$@" ) 2>&1 |
    while IFS= read -r line; do
      case $line in
        "TASK [$task]"*) there=1 ;;
        'changed: '*) if [ -n "$there" ]; then
          kill -9 "$(cat "$log/at.pid")"
          host=${line#*[}; echo "${host%%]*}"; break
        fi ;;
      esac
    done
}

restart_not_lost() {
  local level host before
  # The run may be faster than the kill; then it is tried again with another value.
  for level in warn error debug; do
    before=$(for node in node1 node2 node3; do started $node; done)
    host=$(killed_at 'runtime/containerd : Configure containerd' -e containerd_debug_level="$level")
    echo "killed after $host had level $level"
    for node in node1 node2 node3; do eventually 30 no_executor $node || return 1; done
    [ "$before" = "$(for node in node1 node2 node3; do started $node; done)" ] && break
    level=
  done
  [ -n "$host" ] && [ -n "$level" ] && on "$host" grep -q "level = \"$level\"" /etc/containerd/config.toml || return 1
  before=$(started "$host")
  play -e containerd_debug_level="$level" > "$log/due.log" 2>&1 || { tail -30 "$log/due.log"; return 1; }
  [ "$before" != "$(started "$host")" ] || { echo "containerd of $host was not restarted"; return 1; }
  play -e containerd_debug_level="$level" > "$log/done.log" 2>&1 && recap "$log/done.log" 'changed=0 +unreachable=0 +failed=0' ||
    { tail -30 "$log/done.log"; return 1; }
  changed_back
}

upgrade() { "$windlass" playbook -i "$inventory" playbooks/upgrade.yml "$@"; }

upgrade_planned() {
  local from to; from=$(kubectl node1 version --short | sed -n 's/^Server Version: v//p'); to=$(newer_release)
  [ "$from" != "$to" ] || { echo "the mirror has no release besides $from"; return 1; }
  kubectl node1 create configmap before-upgrade --from-literal=key=value || return 1
  WINDLASS_LAB_RELEASE=$to upgrade --check > "$log/upgrade-check.log" 2>&1 || { tail -30 "$log/upgrade-check.log"; return 1; }
  # The plan is printed first and last.
  [ "$(grep -c "node[123]: Kubernetes $from -> $to" "$log/upgrade-check.log")" = 6 ] && running "$from" || return 1
  # cluster.yml would change all nodes at the same time.
  if WINDLASS_LAB_RELEASE=$to play > "$log/upgrade-refused.log" 2>&1; then return 1; fi
  grep -q 'playbooks/upgrade.yml' "$log/upgrade-refused.log"
}

# Killed where the first node is out of service, and started again: every node moves, and what runs is served meanwhile.
upgraded() {
  local to; to=$(newer_release)
  export WINDLASS_LAB_RELEASE=$to
  load node3 || return 1
  # The program itself: a function in the background would be a shell that is killed instead.
  "$windlass" playbook -i "$inventory" playbooks/upgrade.yml > "$log/upgrade-killed.log" 2>&1 &
  local pid=$!
  eventually 400 grep -q 'TASK \[.*Upgrade the static pods' "$log/upgrade-killed.log" || return 1
  kill -9 $pid; wait $pid 2>/dev/null
  for node in node1 node2 node3; do eventually 30 no_executor $node || return 1; done
  upgrade > "$log/upgrade.log" 2>&1 || { tail -40 "$log/upgrade.log"; load_ends node3; return 1; }
  load_ends node3 > "$log/upgrade.load"
  cat "$log/upgrade.load"
  eventually 60 running "$to" && [ "$(kubectl node1 get nodes --no-headers | grep -c SchedulingDisabled)" = 0 ] || return 1
  few_lost "$log/upgrade.load"
}

upgraded_again() {
  upgrade > "$log/upgrade-again.log" 2>&1 && recap "$log/upgrade-again.log" 'changed=0 +unreachable=0 +failed=0' ||
    { grep -B3 '^changed:' "$log/upgrade-again.log"; return 1; }
}

rollback() { "$windlass" playbook -i "$inventory" playbooks/rollback.yml "$@"; }

# Back to the release and the data of before the upgrade, which was killed and went on.
rolled_back() {
  local from node; from=$(older_release)
  kubectl node1 create configmap after-upgrade --from-literal=key=value || return 1
  if rollback > "$log/rollback-refused.log" 2>&1; then return 1; fi
  grep -q 'run it again with -e rollback_confirm=true' "$log/rollback-refused.log" || { tail -20 "$log/rollback-refused.log"; return 1; }
  rollback --check > "$log/rollback-check.log" 2>&1 && grep "goes back to Kubernetes $from" "$log/rollback-check.log" && running "$(newer_release)" ||
    { tail -20 "$log/rollback-check.log"; return 1; }
  rollback -e rollback_confirm=true > "$log/rollback.log" 2>&1 || { tail -40 "$log/rollback.log"; return 1; }
  export WINDLASS_LAB_RELEASE=$from
  running "$from" && kubectl node1 get configmap before-upgrade && ! kubectl node1 get configmap after-upgrade || return 1
  for node in node1 node2 node3; do eventually 60 answers $node || return 1; done
  grep client-certificate-data "$inventory/artifacts/admin.conf" | on node1 'grep -qFf - /etc/kubernetes/admin.conf' ||
    { echo 'the copy of the kubeconfig is that of the newer release'; return 1; }
  # The kept files are used up.
  if rollback -e rollback_confirm=true > "$log/rollback-again.log" 2>&1; then return 1; fi
  grep -q 'No host has a saved state' "$log/rollback-again.log"
}

survives_power_cut() {
  "$windlass" lab kill node1 || return 1
  eventually 60 kubectl node2 get --raw=/readyz || return 1
  eventually 180 not_ready node1 || return 1
  for node in node2 node3; do eventually 120 answers $node || return 1; done
}

# A control plane that is down keeps no value from the other hosts: node1 is also the first of its groups.
changed_without_first() {
  play -e kubelet_max_pods=111 > "$log/without.log" 2>&1 && { echo 'the run counts as a success'; return 1; }
  grep '^node[1-4]' "$log/without.log"
  grep -q 'node1 could not be reached and stays as it was' "$log/without.log" || { tail -30 "$log/without.log"; return 1; }
  for node in node2 node3; do
    grep -q "^$node .* unreachable=0 *failed=0" "$log/without.log" && on $node "grep -q 'maxPods: 111' /etc/kubernetes/kubelet-config.yaml" || return 1
  done
}

# Serial numbers of the certificates of etcd on a host.
etcd_serials() { on "$1" 'cd /etc/ssl/etcd/ssl && for file in *[0-9].pem *client.pem; do openssl x509 -noout -serial -in "$file" || exit 1; done'; }

renewed_without_first() {
  local before; before=$(etcd_serials node2) || return 1
  certificates --tags renew -e certificates_issued_before=now > "$log/renewed-without.log" 2>&1 && { echo 'the run counts as a success'; return 1; }
  grep -q 'node1 could not be reached and stays as it was' "$log/renewed-without.log" &&
    [ "$(grep -cE '^node[23] .* unreachable=0 +failed=0' "$log/renewed-without.log")" = 2 ] || { tail -30 "$log/renewed-without.log"; return 1; }
  etcd_serials node2 > "$log/serials"
  [ "$before" != "$(cat "$log/serials")" ] && etcd_serials node3 | cmp - "$log/serials"
}

not_ready() { kubectl node2 get node "$1" --no-headers | awk '{exit !($2 ~ /NotReady/)}'; }
is_ready() { kubectl node2 get node "$1" --no-headers | awk '{exit !($2 == "Ready")}'; }

comes_back() {
  "$windlass" lab start node1 && eventually 240 is_ready node1 && eventually 120 answers node1 || return 1
  play > "$log/returned.log" 2>&1 && recap "$log/returned.log" 'unreachable=0 +failed=0' || { tail -30 "$log/returned.log"; return 1; }
  ! on node2 "grep -q 'maxPods: 111' /etc/kubernetes/kubelet-config.yaml" || return 1
  [ -n "$short" ] || for node in node1 node2; do etcd_serials $node | cmp - "$log/serials" || { echo "older certificates on $node"; return 1; }; done
}

scale() { "$windlass" playbook -i "$inventory" playbooks/scale.yml -e "node=$1"; }

# changed_elsewhere FILE: tasks that changed something on hosts of the cluster other than the new one
changed_elsewhere() { awk '/^(TASK|RUNNING HANDLER) /{task=$0} /^changed: \[node[123]/{print task}' "$1" | sort -u; }

worker_joins() {
  lab_up 4 && scale node4 > "$log/joins.log" 2>&1 || { tail -40 "$log/joins.log"; return 1; }
  kubectl node1 get nodes -o wide
  eventually 60 is_ready node4 && eventually 120 answers node4 node1 || return 1
  # The others get its route, and nothing else; with the next run of cluster.yml, its name.
  changed_elsewhere "$log/joins.log" | tee "$log/joins.changed"
  ! grep -vE '\[network/bridge : ' "$log/joins.changed" || return 1
  play > "$log/joined.log" 2>&1 && recap "$log/joined.log" 'unreachable=0 +failed=0' || { tail -30 "$log/joined.log"; return 1; }
  changed_elsewhere "$log/joined.log" | tee "$log/joined.changed"
  ! grep -v '\[host : Write the hosts' "$log/joined.changed"
}

# remove_node NODE [OPTION...]
remove_node() {
  local node=$1; shift
  "$windlass" playbook -i "$inventory" playbooks/remove_node.yml -e "node=$node" -e drain_grace_period=5 -e skip_confirmation=true "$@"
}

# gone NODE CONTROL_PLANE: neither the cluster nor the host knows of the other
gone() {
  ! kubectl "$2" get node "$1" 2>/dev/null || return 1
  on "$1" '! systemctl is-active -q kubelet && ! systemctl is-active -q etcd && ! systemctl is-active -q containerd && ! test -e /etc/kubernetes'
}

etcd_members() { on node2 '. /etc/etcdctl.env; export ETCDCTL_API ETCDCTL_ENDPOINTS ETCDCTL_CACERT ETCDCTL_CERT ETCDCTL_KEY; etcdctl member list'; }

three_members() { etcd_members; [ "$(etcd_members | grep -c started)" = 3 ]; }

control_plane_removed() {
  # The first of the inventory: the others do the work.
  remove_node node1 > "$log/removed.log" 2>&1 || { tail -40 "$log/removed.log"; return 1; }
  etcd_members
  gone node1 node2 && [ "$(etcd_members | wc -l)" = 2 ] && eventually 60 answers node2
}

# joined NAME NODE: cluster.yml brings the node (back) into etcd and the cluster; what it says is kept under NAME
joined() {
  play > "$log/$1.log" 2>&1 || { tail -40 "$log/$1.log"; return 1; }
  eventually 30 three_members && eventually 60 is_ready "$2" && eventually 120 answers "$2" || return 1
  play > "$log/$1-again.log" 2>&1 && recap "$log/$1-again.log" 'changed=0 +unreachable=0 +failed=0' ||
    { tail -30 "$log/$1-again.log"; grep -B3 '^changed:' "$log/$1-again.log"; return 1; }
}

control_plane_rejoins() {
  scale node1 > "$log/rejoins-first.log" 2>&1 || { tail -40 "$log/rejoins-first.log"; return 1; }
  joined rejoins node1 || return 1
  # A host that becomes the first control plane is no reason to restart kube-proxy on every node.
  ! grep -A4 'TASK \[kube_proxy : Apply' "$log/rejoins-first.log" "$log/rejoins.log" | grep changed:
}

etcd_data_lost() {
  local before; before=$(etcd_members)
  on node3 'systemctl stop etcd && rm -rf /var/lib/etcd/*' && joined data-lost node3 || return 1
  # Another member than before, under the same name; the others are the same ones.
  [ "$(etcd_members | grep -cFxf <(echo "$before"))" = 2 ] && eventually 60 kubectl node3 get --raw=/readyz
}

recover() { "$windlass" playbook -i "$inventory" playbooks/recover.yml "$@"; }
with_etcdctl() { local node=$1; shift; on "$node" "set -a; . /etc/etcdctl.env; $*"; }

# small_etcd QUOTA: the members restart with that quota, which their next restart forgets
small_etcd() {
  local node
  for node in node1 node2 node3; do
    on "$node" "cd /run/systemd/system && mkdir -p etcd.service.d && echo ETCD_QUOTA_BACKEND_BYTES=$1 > /run/etcd-small.env
      printf '[Service]\nEnvironmentFile=/run/etcd-small.env\n' > etcd.service.d/small.conf && systemctl daemon-reload &&
      systemctl restart etcd && rm -r etcd.service.d /run/etcd-small.env && systemctl daemon-reload" || return 1
  done
}

not_served() { ! kubectl "$1" --server="https://127.0.0.1:6443" get --raw=/readyz > /dev/null 2>&1; }

# Two failures at the same time: etcd refuses writes, and an API server does not start.
full_and_wrong_flag() {
  local size
  size=$(with_etcdctl node1 'etcdctl endpoint status --write-out=json' | sed 's/.*"dbSize":\([0-9]*\).*/\1/')
  small_etcd $((size + 8388608)) || return 1
  on node2 'cd /etc/kubernetes/manifests &&
    sed -i "s/^\( *\)- kube-apiserver$/&\n\1- --no-such-flag=1/" kube-apiserver.yaml && systemctl restart kubelet' || return 1
  with_etcdctl node1 'yes | head -c 1000000 > /run/value
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do etcdctl put filling < /run/value > /dev/null 2>&1 || exit 0; done; exit 1' ||
    { echo 'etcd was not filled'; return 1; }
  if kubectl node1 create configmap full --from-literal=key=value; then return 1; fi
  eventually 60 not_served node2 || return 1
  recover > "$log/full.log" 2>&1 || { tail -40 "$log/full.log"; return 1; }
  grep 'alarm NOSPACE' "$log/full.log" && grep -- '--no-such-flag=1, which the inventory has not' "$log/full.log" || return 1
  with_etcdctl node1 'etcdctl del filling' && ! not_served node2 && kubectl node2 create configmap full --from-literal=key=value
}

majority_lost() {
  local node
  kubectl node1 create configmap survived --from-literal=key=value || return 1
  for node in node2 node3; do on $node 'systemctl stop etcd && rm -rf /var/lib/etcd/*' || return 1; done
  if recover > "$log/quorum-refused.log" 2>&1; then return 1; fi
  grep 'recover_confirm_quorum_loss=true' "$log/quorum-refused.log" || return 1
  recover -e recover_confirm_quorum_loss=true > "$log/quorum.log" 2>&1 || { tail -40 "$log/quorum.log"; return 1; }
  eventually 30 three_members && eventually 30 kubectl node2 get configmap survived && eventually 60 answers node3 &&
    kubectl node3 create configmap written --from-literal=key=value
}

# Nobody has renewed the certificates, and they expire on all members at the same time. The authority and the keys are
# the same ones.
etcd_expired() {
  local node before
  kubectl node1 create configmap before-expiry --from-literal=key=value || return 1
  before=$(on node1 'sha256sum /etc/ssl/etcd/ssl/ca.pem')
  for node in node1 node2 node3; do
    on "$node" 'cd /etc/ssl/etcd/ssl && for key in [!c]*-key.pem; do
        openssl x509 -x509toreq -in ${key%-key.pem}.pem -signkey $key -copy_extensions copyall |
          openssl x509 -req -CA ca.pem -CAkey ca-key.pem -set_serial 1 -copy_extensions copyall -days -1 -out /run/ended.pem &&
          cat /run/ended.pem > ${key%-key.pem}.pem || exit 1
      done 2>/dev/null; rm /run/ended.pem; systemctl restart --no-block etcd' || { echo "$node keeps its certificates"; return 1; }
  done
  eventually 30 not_served node1 || return 1
  recover > "$log/expired.log" 2>&1 || { tail -40 "$log/expired.log"; return 1; }
  grep 'certificates of etcd are ended: member-node2.pem' "$log/expired.log" && kubectl node3 get configmap before-expiry &&
    [ "$before" = "$(on node2 'sha256sum /etc/ssl/etcd/ssl/ca.pem')" ]
}

dead_host_removed() {
  "$windlass" lab kill node3 && eventually 180 not_ready node3 || return 1
  # Nobody confirms that its pods have ended; and the host itself is left as it is.
  remove_node node3 -e reset_nodes=false -e allow_ungraceful_removal=true > "$log/dead.log" 2>&1 || { tail -40 "$log/dead.log"; return 1; }
  # Its pods are not waited for.
  given_up "$log/dead.log" || { tail -40 "$log/dead.log"; return 1; }
  etcd_members
  ! kubectl node2 get node node3 2>/dev/null && [ "$(etcd_members | wc -l)" = 2 ] && eventually 60 kubectl node2 get --raw=/readyz
}

dead_host_returns() {
  "$windlass" lab start node3 &&
    "$windlass" playbook -i "$inventory" playbooks/replace_node.yml -e node=node3 -e skip_confirmation=true > "$log/replaced.log" 2>&1 || { tail -40 "$log/replaced.log"; return 1; }
  joined dead-returns node3
}

worker_removed() {
  remove_node node4 > "$log/worker-removed.log" 2>&1 || { tail -40 "$log/worker-removed.log"; return 1; }
  gone node4 node1 && remove_node node4 > "$log/worker-removed-again.log" 2>&1
}

# with_backups PLAYBOOK OPTION...
with_backups() {
  local playbook=$1; shift
  "$windlass" playbook -i "$inventory" "playbooks/$playbook.yml" -e "@$log/backups.yml" "$@"
}

backed_up() {
  backup_settings >"$log/backups.yml" && age_on node1 node2 node3 || return 1
  # The archive has the keys of the authorities.
  if with_backups backup -e '{"backup_age_recipients": []}' >"$log/refused.log" 2>&1; then return 1; fi
  grep -q 'backup_age_recipients. is empty' "$log/refused.log" || return 1
  # Without the backup, nothing is taken apart on any host.
  if with_backups reset -e reset_confirmation=yes -e '{"backup_age_recipients": []}' >"$log/kept.log" 2>&1; then return 1; fi
  recap "$log/kept.log" 'changed=0 +unreachable=0' && grep -q 'Nothing was reset' "$log/kept.log" || { tail -30 "$log/kept.log"; return 1; }
  kubectl node1 create configmap kept --from-literal=key=value || return 1
  with_backups backup --check >"$log/backup-check.log" 2>&1 && grep -q 'would take a snapshot of etcd' "$log/backup-check.log" && [ ! -e "$log/backups" ] ||
    { tail -30 "$log/backup-check.log"; return 1; }
  # One member and control plane is down.
  on node1 systemctl stop etcd || return 1
  with_backups backup >"$log/backup.log" 2>&1 || { tail -30 "$log/backup.log"; on node1 systemctl start etcd; return 1; }
  on node1 systemctl start etcd || return 1
  ls -l "$log/backups"
  (cd "$log/backups" && sha256sum -c ./*.sha256) && [ "$(stat -c %a "$log"/backups/*.age)" = 600 ] && ! grep -q etcd.db "$log"/backups/*.age
}

archive_verified() {
  with_backups backup --tags verify >"$log/verify.log" 2>&1 || { tail -30 "$log/verify.log"; return 1; }
  grep 'etcd: [1-9][0-9]* keys, ' "$log/verify.log" && for node in node1 node2 node3; do on "$node" '! ls -A /var/backups/kubernetes/.verify 2>/dev/null'; done
}

namespace_restored() {
  local archive; archive=$(basename "$log"/backups/*.age)
  kubectl node1 delete configmap kept || return 1
  with_backups restore_namespace -e restore_namespace=default -e "backup_archive=$archive" >"$log/namespace.log" 2>&1 ||
    { tail -30 "$log/namespace.log"; return 1; }
  [ "$(kubectl node1 get configmap kept -o 'jsonpath={.data.key}')" = value ] || return 1
  with_backups restore_namespace -e restore_namespace=default -e "backup_archive=$archive" >"$log/namespace2.log" 2>&1 &&
    recap "$log/namespace2.log" 'changed=0 +unreachable=0 +failed=0' || { tail -30 "$log/namespace2.log"; return 1; }
}

restored_after_loss() {
  kubectl node1 create configmap later --from-literal=key=value || return 1
  for node in node1 node2 node3; do
    on "$node" 'systemctl stop etcd && rm -rf /var/lib/etcd/* /etc/ssl/etcd/ssl /etc/kubernetes/ssl' || return 1
  done
  if with_backups restore >"$log/restore-refused.log" 2>&1; then return 1; fi
  grep -q 'Nothing was done' "$log/restore-refused.log" || return 1
  with_backups restore -e restore_confirmation=yes -e "backup_archive=$(basename "$log"/backups/*.age)" >"$log/restore.log" 2>&1 || { tail -40 "$log/restore.log"; return 1; }
  nodes_ready && kubectl node1 get configmap kept || return 1
  ! kubectl node1 get configmap later || return 1
  for node in node1 node2 node3; do eventually 60 answers $node || return 1; done
  for node in node1 node2 node3; do on $node '! ls -A /var/backups/kubernetes/.restore 2>/dev/null' || return 1; done
}

full_disk() {
  on node2 'mkdir -p /mnt/small && mount -t tmpfs -o size=64k tmpfs /mnt/small' || return 1
  head -c 1000000 /dev/zero > "$log/big"
  "$windlass" adhoc -i "$inventory" node2 -m copy -a "src=$log/big dest=/mnt/small/big" > "$log/full" 2>&1
  local code=$?
  cut -c1-400 "$log/full"
  local left; left=$(on node2 'ls -A /mnt/small; umount /mnt/small')
  [ $code = 2 ] && grep -qi 'no space left' "$log/full" && [ -z "$left" ]
}

wrong_checksum() {
  "$windlass" adhoc -i "$inventory" node2 -m get_url -a "url=file:///etc/hostname dest=/root/fetched checksum=sha256:$(printf '0%.0s' $(seq 64))" > "$log/sum" 2>&1
  local code=$?
  cat "$log/sum"
  [ $code = 2 ] && grep -qi checksum "$log/sum" && ! on node2 test -e /root/fetched
}

nothing_left_running() {
  for node in node1 node2 node3; do eventually 20 no_executor $node || return 1; done
}

lab_is_gone() {
  "$windlass" lab down || return 1
  ! ip link show windlass0 2>/dev/null && ! grep -q '/windlass-lab/' /proc/mounts && ! pgrep -f 'systemd-nspawn.*/windlass-lab/'
}
