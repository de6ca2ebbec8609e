# shellcheck shell=bash disable=SC2154
# Functions that the programs of the lab share. They use $windlass, $inventory, $cache and $log.

# For machines on which another lab runs too: further options of `windlass lab up`, such as --bridge and --network.
read -ra lab_options <<<"${WINDLASS_LAB_UP:-}"
# Logins and sudo may take longer than 10 seconds on a busy machine.
export ANSIBLE_TIMEOUT=60

play() { "$windlass" playbook -i "$inventory" playbooks/cluster.yml "$@"; }
# on NODE COMMAND...: repeated if ssh fails (255), because a host of a busy machine may not answer in time. A command
# that reads standard input is not repeated, because the first attempt may have read some.
on() {
  local node=$1 code attempt attempts=1; shift
  [ -t 0 ] || [ /dev/stdin -ef /dev/null ] && attempts='1 2 3'
  for attempt in $attempts; do
    "$windlass" lab ssh "$node" "$@"
    code=$?
    [ $code = 255 ] || break
    sleep 2
  done
  return $code
}
kubectl() { local node=$1; shift; on "$node" kubectl --kubeconfig /etc/kubernetes/admin.conf "$@"; }
address() { "$windlass" lab inventory | sed -n "s/^$1 .*ansible_host=\([^ ]*\).*/\1/p"; }

# eventually SECONDS COMMAND...: until it succeeds. An idle machine needs these seconds at most; other tests may keep this one
# busy, so it gets three times as many.
eventually() {
  local deadline=$((SECONDS + 3 * $1)); shift
  until "$@"; do
    [ $SECONDS -lt $deadline ] || { cluster_state; echo "gave up waiting for: $*"; return 1; }
    sleep 2
  done
}

# cluster_state: nodes, pods that do not run as they should, pods of tests and the last events, if there is a cluster
cluster_state() {
  local node
  for node in node1 node2 node3; do
    kubectl "$node" --request-timeout 20s get nodes -o wide || continue
    kubectl "$node" --request-timeout 20s get pods --all-namespaces -o wide | grep -vE '^kube-system .* ([0-9]+)/\1 +Running '
    kubectl "$node" --request-timeout 20s get events --all-namespaces --sort-by .lastTimestamp | grep -v MissingClusterDNS | tail -15
    return
  done
} 2>/dev/null </dev/null

# recap FILE PATTERN: every host's line of the recap has it
recap() {
  local lines; lines=$(grep -E '^node[0-9]+ +: ' "$1")
  [ -n "$lines" ] || { echo "no recap in $1"; tail -20 "$1"; return 1; }
  ! grep -vE -- "$2" <<<"$lines"
}

# lab_up HOSTS: the lab with that many hosts, and an inventory of them
lab_up() {
  "$windlass" lab up --nodes "$1" --memory 3G --mount "$cache/artifacts:$cache/artifacts" "${lab_options[@]}" &&
    "$windlass" lab inventory --format yaml > "$inventory/hosts.yml"
}

# grouped FOLDER CONTROL_PLANES MEMBERS NODES: an inventory of these hosts of the lab, with the lab's settings
grouped() {
  local folder=$1 group node; shift
  mkdir -p "$folder"
  cp -r inventory/lab/group_vars "$folder"
  {
    "$windlass" lab inventory --format yaml | sed '/^  hosts:/,$d'
    echo '  hosts:'
    for node in $(printf '%s\n' $* | sort -u); do
      echo "    $node: {ansible_host: $(address "$node"), ip: $(address "$node")}"
    done
    echo '  children:'
    for group in kube_control_plane etcd kube_node; do
      printf '    %s: {hosts: {%s}}\n' $group "$(printf '%s: {}, ' $1)"; shift
    done
    echo '    k8s_cluster: {children: {kube_control_plane: {}, kube_node: {}}}'
  } >"$folder/hosts.yml"
}

# given_up FILE: this run of remove_node.yml cordoned a node, and waited for none of its pods
given_up() { [ "$(awk -v RS= '/: (Cordon the nodes whose kubelet does not respond|Drain the nodes)/ && /\nchanged/ { print $4 }' "$1")" = Cordon ]; }

no_executor() { ! on "$1" 'pgrep -f "executor[-].* serve"' >/dev/null; }

# age_on NODE...: the hosts have no network, so the role `backup` finds the package that it would install
age_on() {
  local node
  mkdir -p "$cache/age"
  ls "$cache"/age/age_*.deb >/dev/null 2>&1 ||
    (cd "$cache/age" && { apt-get download -q age || { apt-get update -q && apt-get download -q age; }; }) || return 1
  for node; do on "$node" 'cat >/root/age.deb && dpkg -i /root/age.deb' <"$(ls "$cache"/age/age_*.deb)" >/dev/null || return 1; done
}

# backup_settings: with a key of SSH, which age takes too, so that this machine needs no age
backup_settings() {
  [ -e "$log/backups.key" ] || ssh-keygen -q -t ed25519 -N '' -C lab -f "$log/backups.key" || return 1
  printf '%s\n' "backup_age_recipients: ['$(cat "$log/backups.key.pub")']" \
    "backup_age_identity_file: $log/backups.key" "backup_controller_dir: $log/backups"
}

# answers NODE [CONTROL_PLANE]: five requests to the ClusterIP, each answered; a worker needs the address
answers() {
  local address; address=$(kubectl "${2:-$1}" get service hello -o 'jsonpath={.spec.clusterIP}') || return 1
  on "$1" "for i in 1 2 3 4 5; do curl -sf -m 3 http://$address/ >/dev/null || exit 1; done"
}

# spread_over NODES: pods of hello run on so many. The scheduler decides by what it knows: if the end of a pod has not reached it
# yet, the next one may join another node's pod. Nothing moves a pod later, so the second one of a node is deleted.
spread_over() {
  local pods second
  pods=$(kubectl node1 get pods -l app=hello --no-headers \
    -o custom-columns=N:.spec.nodeName,P:.status.phase,D:.metadata.deletionTimestamp,M:.metadata.name) || return 1
  [ "$(awk '$2 == "Running" && $3 == "<none>" { print $1 }' <<<"$pods" | sort -u | wc -l)" != "$1" ] || return 0
  ! grep -E ' Pending |[0-9]Z ' <<<"$pods" || return 1
  second=$(awk '$2 == "Running" && seen[$1]++ { print $4; exit }' <<<"$pods")
  [ -z "$second" ] || kubectl node1 delete pod "$second" --wait=false
  return 1
}

# running VERSION: every node and every control plane has that release
running() {
  kubectl node1 get nodes -o wide
  [ "$(kubectl node1 get nodes -o 'jsonpath={.items[*].status.nodeInfo.kubeletVersion}' | tr ' ' '\n' | sort -u)" = "v$1" ] &&
    [ "$(kubectl node1 get pods -n kube-system -l tier=control-plane -o 'jsonpath={.items[*].spec.containers[0].image}' | tr ' ' '\n' | sed 's/.*://' | sort -u)" = "v$1" ]
}

# Releases of the mirror.
older_release() { basename "$(find "$cache/artifacts/releases" -name '*.yml' | sort -V | head -1)" .yml; }
newer_release() { basename "$(find "$cache/artifacts/releases" -name '*.yml' | sort -V | tail -1)" .yml; }

# load NODE [CONTROL_PLANE]: asks the API by the node's load balancer, and the service hello, five times a second until load_ends
load() {
  local address; address=$(kubectl "${2:-$1}" get service hello -o 'jsonpath={.spec.clusterIP}') || return 1
  on "$1" "cat > /root/load; systemd-run --quiet --unit=load sh /root/load https://\$(cat /etc/kubernetes/api-endpoint)/readyz http://$address/" <<'LOAD'
: > /root/load.failed; : > /root/load.asked
while sleep 0.2; do
  for url; do
    echo "$url" >> /root/load.asked
    curl -skf -m 3 "$url" > /dev/null || echo "$(date +%T) $url" >> /root/load.failed
  done
done
LOAD
}
load_ends() { on "$1" 'systemctl stop load; wc -l < /root/load.asked; cat /root/load.failed'; }

# few_lost FILE [PERCENT]: of the output of load_ends. A connection that is open while its end is restarted is lost: how many
# are depends on the machine, so 3 of 100 may be.
few_lost() {
  local asked lost; asked=$(head -1 "$1") lost=$(($(wc -l < "$1") - 1))
  echo "$lost of $asked requests were lost"
  # A change of little ends after some seconds.
  [ "$asked" -gt 20 ] && [ $((lost * 100)) -le $((asked * ${2:-3})) ]
}
