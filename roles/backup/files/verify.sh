#!/bin/sh
# verify.sh FOLDER KEYS [NAME]: restores FOLDER/content/NAME.db into a scratch etcd, reads every key, and compares
# their number. The scratch etcd listens on sockets in a folder of root's, because it serves without certificates.
set -eu
umask 077
PATH=$BACKUP_BIN_DIR:$PATH
export PATH ETCDCTL_API=3
name=${3:-etcd}
cd "$1"
rm -rf scratch
mkdir scratch
cd scratch
process=
trap '[ -z "$process" ] || { kill "$process"; wait "$process"; } 2>/dev/null || true; cd /; rm -rf "$1/scratch"' EXIT
trap 'exit 1' INT TERM HUP

$(command -v etcdutl || echo etcdctl) snapshot restore "../content/$name.db" --data-dir data --name verify \
    --initial-cluster verify=http://localhost:1 --initial-advertise-peer-urls http://localhost:1 >log 2>&1 ||
    { cat log >&2; exit 1; }
etcd --name verify --data-dir data --listen-client-urls unix://localhost:2 --advertise-client-urls unix://localhost:2 \
    --listen-peer-urls unix://localhost:1 --initial-advertise-peer-urls http://localhost:1 \
    --initial-cluster verify=http://localhost:1 >log 2>&1 &
process=$!
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
echo "$name: $keys keys, $bytes bytes"
