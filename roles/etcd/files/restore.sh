#!/bin/sh
# restore.sh SNAPSHOT DATA: replaces the data of the member in DATA by SNAPSHOT. The data that was there is kept as
# member.before-restore, also if the script runs again for the same token.
set -eu
umask 077

! systemctl is-active --quiet "$ETCD_UNIT" || { echo "$ETCD_UNIT runs, so its data is not replaced." >&2; exit 1; }
[ ! -e "$2/member/snap/db" ] || flock -n "$2/member/snap/db" true ||
    { echo "An etcd member uses $2, so its data is not replaced. Stop it." >&2; exit 1; }
mkdir -p "$2"
chmod 0700 "$2"
cd "$2"
rm -rf .restoring
tool=$(command -v etcdutl || echo etcdctl)
# Programs that have watched the cluster refuse to go back: where etcd can, revisions go on far beyond all that they
# may have seen.
bump=
! "$tool" snapshot restore --help 2>&1 | grep -q -- --bump-revision ||
    bump='--bump-revision=1000000000 --mark-compacted'
# shellcheck disable=SC2086 # words
ETCDCTL_API=3 "$tool" snapshot restore "$1" --data-dir .restoring --name "$ETCD_MEMBER" \
    --initial-cluster "$ETCD_MEMBERS" --initial-cluster-token "$ETCD_TOKEN" \
        --initial-advertise-peer-urls "$ETCD_PEER_URL" $bump
if [ "$(cat .restored 2>/dev/null)" = "$ETCD_TOKEN" ]; then
    rm -rf member
elif [ -e member ]; then
    rm -rf member.before-restore
    mv member member.before-restore
fi
echo "$ETCD_TOKEN" >.restored
mv .restoring/member member
rm -rf .restoring
sync .
