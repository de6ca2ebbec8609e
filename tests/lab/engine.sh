# shellcheck shell=bash disable=SC2154
# Runs in a pod of the lab's cluster. Functions of tests/lab/run; they use $windlass, $inventory, $cache and $log.

# The development build needs the C library, which the image of `make dist` lacks. Every node gets the image.
engine_image() {
  local program=$log/engine-program archive=$log/engine.oci.tar libraries node
  strip -o "$program" "$windlass" || return
  libraries=$(ldd "$program" | grep -o '/[^ ]*') || return
  # shellcheck disable=SC2086
  tools/image "$program" "$(uname -m)" lab "$archive" $libraries || return
  for node in "$@"; do
    on "$node" 'cat > /tmp/engine.oci.tar' < "$archive" &&
      on "$node" 'ctr -n k8s.io images import --base-name docker.io/lab/windlass /tmp/engine.oci.tar && rm /tmp/engine.oci.tar' || return
  done
  rm -f "$program" "$archive"
}

# engine_project: a project whose tasks each leave a line on every host, and notify a handler
engine_project() {
  local project=$log/engine-project node address
  mkdir -p "$project"
  {
    echo 'all: {vars: {ansible_user: root}, hosts: {'
    for node in node1 node2; do
      address=$(on $node hostname -I | cut -d' ' -f1)
      echo "  $node: {ansible_host: $address},"
    done
    echo '}}'
  } > "$project/hosts.yml"
  {
    echo '- hosts: all'
    echo '  gather_facts: false'
    echo '  handlers: [{name: at last, shell: echo handler >> /tmp/engine-lines}]'
    echo '  tasks:'
    for number in {1..20}; do
      echo "    - shell: echo $number >> /tmp/engine-lines; sleep 1"
      echo '      notify: at last'
    done
  } > "$project/site.yml"
  # The server in it is the balancer of the node.
  address=$(on node1 hostname -I | cut -d' ' -f1)
  on node1 cat /etc/kubernetes/admin.conf | sed "s#server: .*#server: https://$address:6443#" > "$log/engine.conf"
}

engine_playbook() {
  (cd "$log/engine-project" && KUBECONFIG=$log/engine.conf "$windlass" playbook -i hosts.yml site.yml --engine kubernetes --engine-image docker.io/lab/windlass:lab \
    --private-key "${WINDLASS_LAB_DIR:-/var/lib/windlass-lab}/id_ed25519" --accept-new-host-keys "$@")
}
engine() { KUBECONFIG=$log/engine.conf "$windlass" engine "$@"; }
engine_lines() { on "$1" "grep -cx '${2:-[0-9]*}' /tmp/engine-lines"; }

# The pod of a run is killed and another one resumes; the client is killed and another one follows.
run_in_a_pod() {
  engine_image node1 node2 node3 && engine_project || return
  local run client node count
  engine_playbook > "$log/engine.out" 2> "$log/engine.err" & client=$!
  eventually 90 grep -q 'changed: \[node1\]' "$log/engine.out" || { cat "$log/engine.err"; return 1; }
  run=$(engine list | grep -o '[0-9]\{8\}-[0-9]\{6\}-[0-9a-f]\{6\}' | tail -1)
  kubectl node1 -n windlass delete pod -l "windlass.dev/run=$run" --grace-period=0 --force > /dev/null 2>&1
  pkill -9 -P $client; wait $client 2> /dev/null
  engine attach "$run" > "$log/attached.out" 2> "$log/attached.err" || { tail "$log/attached.out" "$log/attached.err"; return 1; }
  grep -q 'RUNNING HANDLER \[at last\]' "$log/attached.out" && recap "$log/attached.out" 'failed=0 ' || return
  for node in node1 node2; do
    # A task that was running when its pod was killed may run twice, and so may tasks of the last second.
    count=$(on "$node" 'grep -x "[0-9]*" /tmp/engine-lines | sort -u | wc -l'); [ "$count" = 20 ] || { echo "$node ran $count of 20"; return 1; }
    [ "$(engine_lines "$node")" -le 23 ] && [ "$(engine_lines "$node" handler)" = 1 ] || { on "$node" cat /tmp/engine-lines; return 1; }
    on "$node" rm /tmp/engine-lines
  done
  [ "$(engine list | grep -c "$run .*exit code 0")" = 1 ] || { engine list; return 1; }
}

# A detached run is cancelled in order; removing the namespace leaves nothing.
run_in_a_pod_cancelled() {
  local run
  run=$(engine_playbook --detach 2> /dev/null) || return
  eventually 60 on node1 test -e /tmp/engine-lines || return
  engine cancel "$run" && engine attach "$run" > "$log/cancelled.out" 2>&1
  [ $? = 99 ] || { tail "$log/cancelled.out"; return 1; }
  eventually 5 no_executor node1 || return
  [ "$(engine_lines node1)" -lt 20 ] || return
  engine delete "$run" && ! kubectl node1 -n windlass get secret -o name | grep "$run" || return
  engine uninstall && eventually 60 namespace_is_gone
}
namespace_is_gone() { ! kubectl node1 get namespace windlass > /dev/null 2>&1; }
