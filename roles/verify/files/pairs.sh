# shellcheck shell=bash disable=SC2154
# Observations of the network from this node; lib.sh comes before this file. POD is the uid of the probe here. Standard
# input has a line for each target: CHECK NAME ADDRESS:PORT. MODE is measure, or forbidden: a NetworkPolicy is in force,
# and no target may be reached.
place=$(grep -lsE "$POD|${POD//-/_}" /proc/[0-9]*/cgroup | head -n 1)
process=${place//[^0-9]/}
if [ -z "$process" ]; then
  say network.pods fail "no process of the probe $POD runs here"
  exit 0
fi

try() { # try CHECK NAME ADDRESS
  local inside=(nsenter --target "$process" --net --) answer
  [ "$1" != network.node ] || inside=()
  answer=$("${inside[@]}" curl -s -m 3 -o /dev/null -w '%{http_code} %{time_total}' "http://$3/health")
  case $answer in
    200\ *) say "$1" pass "to $2 in $(milliseconds "${answer#* }")" ;;
    *) return 1 ;;
  esac
}

measure() { # measure CHECK NAME ADDRESS: two attempts
  try "$@" || try "$@" || say "$1" fail "no answer from $2 ($3)"
}

forbidden() { # forbidden CHECK NAME ADDRESS: agents have some seconds to learn a policy
  local attempt
  for attempt in {1..15}; do
    try "$@" >/dev/null || { say network.policy pass "$2 is not reached"; return; }
    sleep 1
  done
  say network.policy fail "$2 is reached, and a NetworkPolicy forbids it"
}
export -f try measure forbidden say milliseconds
export process
xargs -r -n 3 -P 8 bash -c '"$MODE" "$@"' _

[ "$MODE" = measure ] || exit 0
export -f resolve
service=$(plain "$SERVICE_ADDRESS")
for server in $DNS_SERVERS; do
  answer=$(nsenter --target "$process" --net -- \
    bash -c 'resolve "$@" || resolve "$@"' _ "$server" "$SERVICE_NAME" "$service" 2>/dev/null)
  if [ "$answer" = "$service" ]; then
    say network.name pass "$server resolves $SERVICE_NAME"
  else
    say network.name fail "$server does not resolve $SERVICE_NAME (${answer:-no answer})"
  fi
done
exit 0
