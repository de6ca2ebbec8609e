# shellcheck shell=bash disable=SC2154
# Functions that the end-to-end test and the matrix share. They use $windlass, $inventory and $cache.

play() { "$windlass" playbook -i "$inventory" playbooks/cluster.yml "$@"; }
on() { local node=$1; shift; "$windlass" lab ssh "$node" "$@"; }
kubectl() { local node=$1; shift; on "$node" kubectl --kubeconfig /etc/kubernetes/admin.conf "$@"; }

# eventually SECONDS COMMAND...: until it succeeds
eventually() {
  local deadline=$((SECONDS + $1)); shift
  until "$@"; do
    [ $SECONDS -lt $deadline ] || { echo "gave up waiting for: $*"; return 1; }
    sleep 2
  done
}

# recap FILE PATTERN: every host's line of the recap has it
recap() {
  local lines; lines=$(grep -E '^node[0-9]+ +: ' "$1")
  [ -n "$lines" ] || { echo "no recap in $1"; tail -20 "$1"; return 1; }
  ! grep -vE -- "$2" <<<"$lines"
}

# lab_up HOSTS: the lab with that many hosts, and an inventory of them
lab_up() {
  "$windlass" lab up --nodes "$1" --memory 3G --mount "$cache/artifacts:$cache/artifacts" &&
    "$windlass" lab inventory --format yaml > "$inventory/hosts.yml"
}

no_executor() { ! on "$1" 'pgrep -f "executor[-].* serve"' >/dev/null; }
