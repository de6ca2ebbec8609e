# shellcheck shell=bash disable=SC2154
# Observations on a node; lib.sh comes before this file.

answer=$(curl -s -m 5 "http://127.0.0.1:$KUBELET_HEALTH_PORT/healthz" 2>&1)
case $answer in
  ok) say node.kubelet pass ok ;;
  '') say node.kubelet fail "kubelet does not answer at 127.0.0.1:$KUBELET_HEALTH_PORT" ;;
  *) say node.kubelet fail "kubelet says: $answer" ;;
esac

# The way that kubelet takes.
start=$EPOCHREALTIME
kubeconfig=$KUBE_CONFIG_DIR/kubelet.conf
if answer=$("$BIN_DIR/kubectl" --kubeconfig="$kubeconfig" --request-timeout=5s get --raw=/readyz 2>&1); then
  say node.api pass "$(since "$start")"
else
  say node.api fail "$(tail -n 1 <<<"$answer")"
fi

# By the address of the Service `kubernetes`, which shows the rules of Services on this node.
code=$(curl -sk -m 5 -o /dev/null -w '%{http_code} %{time_total}' "https://$API_SERVICE/readyz")
case $code in
  200* | 401* | 403*) say node.service pass "$(milliseconds "${code#* }")" ;;
  *) say node.service fail "the Service kubernetes does not answer at $API_SERVICE (${code% *})" ;;
esac

service=$(plain "${API_SERVICE%:*}")
for server in $DNS_SERVERS; do
  for attempt in 1 2 3; do
    start=$EPOCHREALTIME
    answer=$(resolve "$server" "kubernetes.default.svc.$DNS_DOMAIN" "$service" 2>/dev/null)
    [ "$answer" = "$service" ] && break
  done
  if [ "$answer" = "$service" ]; then
    say node.dns pass "$server in $(since "$start")"
  else
    say node.dns fail "$server does not resolve kubernetes.default.svc.$DNS_DOMAIN (${answer:-no answer})"
  fi
done
