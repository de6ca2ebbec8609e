#!/bin/sh
# record.sh FOLDER TIME RELEASE ETCD_CERT_DIR CERT_DIR SNAPSHOT...: completes FOLDER, which keep.sh has made, with hard
# links to the snapshots of this host's members (UNIT-TIME.db), the authority of etcd, and a record of all of it. The
# record comes last: a folder without it is not complete.
set -eu
umask 077
folder=$1 time=$2 release=$3 etcd=$4 certs=$5
shift 5

for snapshot; do
    [ -e "$snapshot" ] || continue
    unit=$(basename "$snapshot" "-$time.db")
    ln -f "$snapshot" "$folder/$unit.db" 2>/dev/null || cp "$snapshot" "$folder/$unit.db"
done
if [ -e "$etcd/ca-key.pem" ]; then
    mkdir -p "$folder/etcd-pki"
    cp "$etcd/ca.pem" "$etcd/ca-key.pem" "$folder/etcd-pki/"
fi
{
    echo "time $time"
    echo "kubernetes $release"
    for file in "$etcd/ca.pem" "$certs/ca.crt" "$certs/etcd/ca.crt"; do [ ! -e "$file" ] || sha256sum "$file" |
        sed 's/^/authority /'; done
    (cd "$folder" && for file in *.db; do [ ! -e "$file" ] || sha256sum "$file" | sed 's/^/snapshot /'; done)
} >"$folder/record.new"
mv "$folder/record.new" "$folder/record"
