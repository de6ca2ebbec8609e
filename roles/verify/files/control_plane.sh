# shellcheck shell=bash disable=SC2154
# Observations of the host's own API server; lib.sh comes before this file.
kubectl() {
  "$BIN_DIR/kubectl" --kubeconfig="$KUBE_CONFIG_DIR/admin.conf" --server="https://$API_SERVER" \
    --request-timeout=10s "$@"
}

if ! answer=$(kubectl get '--raw=/readyz?verbose' 2>&1); then
  failed=$(sed -n 's/^\[-\]\([^ ]*\).*/\1/p' <<<"$answer" | tr '\n' ' ')
  say api.ready fail "${failed:-$(tail -n 1 <<<"$answer")}"
  exit 0
fi
say api.ready pass "$API_SERVER"

# Each request reads from etcd. kubectl's own time is not part of it.
certificate=$KUBE_CERT_DIR/apiserver-kubelet-client
times=$(for _ in 1 2 3 4 5; do
  curl -sk -m 10 --cert "$certificate.crt" --key "$certificate.key" -o /dev/null -w '%{time_total}\n' \
    "https://$API_SERVER/readyz"
done | sort -n)
status=pass
median=$(sed -n 3p <<<"$times" | awk '{ printf "%d", $1 * 1000 }')
[ "$median" -le "$API_MILLISECONDS" ] || status=warn
say api.latency $status "$median ms (median of five requests)"

version=$(kubectl get --raw=/version | sed -n 's/.*"gitVersion": "v\([^"]*\)".*/\1/p')
say api.version "$(judge [ "$version" = "$KUBE_VERSION" ])" \
  "the API server is ${version:-unknown}, the inventory wants $KUBE_VERSION"

# Since the API server started. Watches last by design.
kubectl get --raw=/metrics 2>/dev/null | awk -v share="$API_SHARE" '
  /^apiserver_request_total[{]/ { requests += $NF; if (/[{,]code="5/) errors += $NF }
  /^apiserver_request_duration_seconds_bucket[{]/ && !/verb="(WATCH|CONNECT)"/ &&
      !/subresource="(log|exec|attach|portforward|proxy)"/ {
    if (/le="1"/) quick += $NF
    if (/le="[+]Inf"/) answered += $NF
  }
  function judge(check, part, all, what) {
    if (!all) return
    printf "%s %s %d of %d requests %s\n", check, (part > all * share / 100 ? "warn" : "pass"), part, all, what
  }
  END {
    judge("api.errors", errors, requests, "ended with an error of the server")
    judge("api.slow", answered - quick, answered, "took more than a second")
  }'
