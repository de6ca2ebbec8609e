#!/bin/sh
# verify.sh FOLDER KEYS [NAME]: restores FOLDER/content/NAME.db into a scratch etcd, reads every key, and compares
# their number. The scratch etcd listens on sockets in a folder of root's, because it serves without certificates.
#
# With BACKUP_NAMESPACE it then prints that namespace and all its objects as JSON, read through a scratch API server:
# the running one's program, on a port of 127.0.0.1 and with keys of its own. It sees the scratch etcd and calls only
# servers that convert custom resources.
# BACKUP_PREFIX, BACKUP_SERVICE_ADDRESSES, BACKUP_ADDRESS and BACKUP_APIS are settings of it, and BACKUP_API_PORT is the
# running one's port. Both end after 15 minutes even if this script is killed.
set -eu
umask 077
PATH=$BACKUP_BIN_DIR:$PATH
export PATH ETCDCTL_API=3
name=${3:-etcd}
cd "$1"
rm -rf scratch
mkdir scratch
cd scratch
processes=
ended() {
    for process in $processes; do kill "$process"; wait "$process"; done 2>/dev/null || true
    cd /
    rm -rf "$1/scratch"
}
trap 'ended "$1"' EXIT
trap 'exit 1' INT TERM HUP

$(command -v etcdutl || echo etcdctl) snapshot restore "../content/$name.db" --data-dir data --name verify \
    --initial-cluster verify=http://localhost:1 --initial-advertise-peer-urls http://localhost:1 >log 2>&1 ||
    { cat log >&2; exit 1; }
timeout -k 10 900 etcd --name verify --data-dir data --listen-client-urls unix://localhost:2 \
    --advertise-client-urls unix://localhost:2 \
    --listen-peer-urls unix://localhost:1 --initial-advertise-peer-urls http://localhost:1 \
    --initial-cluster verify=http://localhost:1 >log 2>&1 &
process=$!
processes=$process
for attempt in $(seq 60); do
    etcdctl --endpoints unix://localhost:2 endpoint health >/dev/null 2>&1 && break
    if ! kill -0 "$process" 2>/dev/null || [ "$attempt" = 60 ]; then
        tail -n 20 log >&2
        echo "The scratch etcd does not serve." >&2
        exit 1
    fi
    sleep 1
done
read_all() { etcdctl --endpoints unix://localhost:2 get '' --prefix "$@"; }
keys=$(read_all --limit=1 --keys-only -w json | sed -n 's/.*"count":\([0-9]*\).*/\1/p')
bytes=$(read_all --print-value-only | wc -c)
[ "${keys:-0}" = "$2" ] || { echo "The scratch $name has ${keys:-0} keys, but the manifest counts $2." >&2; exit 1; }
[ "$bytes" -gt 0 ] || { echo "The scratch $name has no values." >&2; exit 1; }
[ -n "${BACKUP_NAMESPACE:-}" ] || { echo "$name: $keys keys, $bytes bytes"; exit 0; }

fail() { printf '%s\n' "$*" >&2; exit 1; }
# A pod may give its own program that name, but it cannot listen on the host's port.
port=$(printf %04X "$BACKUP_API_PORT")
sockets=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
    awk -v port=":$port" '$4 == "0A" && substr($2, length($2) - 4) == port { print "socket:[" $10 "]" }')
running=
for candidate in $(pgrep -x kube-apiserver); do
    [ -z "$sockets" ] || ! ls -l "/proc/$candidate/fd" 2>/dev/null | grep -qF "$sockets" || running=$candidate
done
[ -n "$running" ] ||
    fail "No API server listens on port $BACKUP_API_PORT of this host, whose program could read the archive."
cp "/proc/$running/exe" kube-apiserver
kubeadm init phase certs sa --cert-dir "$PWD/pki" >api.log 2>&1 || fail "kubeadm created no key."
port=36443
while grep -qi ":$(printf %04X $port) [0-9A-F:]* 0A " /proc/net/tcp /proc/net/tcp6; do port=$((port + 1)); done
token=$(head -c 32 /dev/urandom | sha256sum | cut -d ' ' -f 1)
echo "$token,reader,reader,system:masters" >tokens
cat >kubeconfig <<END
apiVersion: v1
kind: Config
clusters: [{name: scratch, cluster: {server: "https://127.0.0.1:$port", certificate-authority: certs/apiserver.crt}}]
users: [{name: reader, user: {token: $token}}]
contexts: [{name: scratch, context: {cluster: scratch, user: reader}}]
current-context: scratch
END
encryption=../content/config/apiserver/encryption.yaml
[ -e "$encryption" ] || encryption=
timeout -k 10 900 ./kube-apiserver --etcd-servers=unix://localhost:2 --etcd-prefix="$BACKUP_PREFIX" \
    --bind-address=127.0.0.1 --secure-port="$port" --advertise-address="$BACKUP_ADDRESS" --cert-dir=certs \
    --endpoint-reconciler-type=none --service-cluster-ip-range="$BACKUP_SERVICE_ADDRESSES" \
    --disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook \
        ${BACKUP_APIS:+--runtime-config="$BACKUP_APIS"} \
    --anonymous-auth=false --token-auth-file=tokens --authorization-mode=AlwaysAllow \
    --service-account-issuer=https://scratch.invalid --service-account-key-file=pki/sa.pub \
    --service-account-signing-key-file=pki/sa.key ${encryption:+--encryption-provider-config="$encryption"} \
    >api.log 2>&1 &
process=$!
processes="$process $processes"
read_api() { kubectl --kubeconfig=kubeconfig --cache-dir="$PWD/cache" --request-timeout=60s "$@"; }
for attempt in $(seq 120); do
    read_api get --raw /readyz >/dev/null 2>&1 && break
    kill -0 "$process" 2>/dev/null && [ "$attempt" != 120 ] ||
        fail "The scratch API server does not serve: $(tail -n 5 api.log)"
    sleep 1
done

# APIs of other servers, such as metrics, are missing here, so kubectl fails after it has printed the rest.
kinds() {
    read_api api-resources --cached=false --namespaced=true --verbs=list,create --output=name 2>/dev/null |
        grep -Ev '^(events|events\.events\.k8s\.io|leases\.coordination\.k8s\.io)$|\.(extensions|metrics\.k8s\.io)$'
}
# Custom resources are served a little later than the rest.
for attempt in $(seq 30); do
    kinds >served
    read_api get customresourcedefinitions \
        --output=jsonpath='{range .items[?(@.spec.scope=="Namespaced")]}{.metadata.name} {.status.conditions[?(@.type=="Established")].status}{"\n"}{end}' >defined
    sed -n 's/ True$//p' defined | grep -vxFf served >missing || break
    [ "$attempt" != 30 ] || fail "The scratch API server does not serve $(paste -sd ' ' missing)."
    sleep 1
done
read_api get namespace "$BACKUP_NAMESPACE" --output=name >/dev/null 2>&1 ||
    fail "The archive has no namespace $BACKUP_NAMESPACE."
echo '{"namespace":'
read_api get namespace "$BACKUP_NAMESPACE" --output=json
echo ', "objects":'
read_api get "$(paste -sd, served)" --namespace="$BACKUP_NAMESPACE" --output=json
echo '}'
