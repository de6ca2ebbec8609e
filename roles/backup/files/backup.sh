# shellcheck shell=sh
# backup.sh [SETTINGS]: writes an archive of the cluster, as this host sees it, into BACKUP_DIR, and removes old
# archives there.
#
# The role runs it with its settings in the environment; the timer runs it with SETTINGS, a
# shell file. BACKUP_MODE is `make`; `plan`, which only prints what `make` would do; or `part`, which prints the files
# of a control plane as a tar archive in base64, for an archive that another host makes. With BACKUP_NEEDS=etcd, a
# host without a member of etcd fails. The exit code 3 is a good archive that S3 did not take, or an old one that it
# kept. s3.sh precedes it.
set -eu
umask 077
# shellcheck source=/dev/null
[ $# -eq 0 ] || . "$1"
PATH=$BACKUP_BIN_DIR:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH LC_ALL=C

fail() { printf 'backup: %s\n' "$*" >&2; exit 1; }
text() { tr -cd '[:print:]' | sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&"/'; }

mode=${BACKUP_MODE:-make}
end=tar.gz
[ "$BACKUP_ENCRYPTION" = none ] || end=tar.gz.age
archive=$BACKUP_NAME-${BACKUP_STAMP:-$(date -u +%Y%m%dT%H%M%SZ)}.$end

is_control_plane() { [ -e "$BACKUP_KUBE_CERT_DIR/sa.key" ]; }

# with SETTINGS COMMAND...: runs etcdctl's programs on the host's own member
with() (
    set -a
    # shellcheck source=/dev/null
    . "$1"
    set +a
    shift
    "$@"
)

# Names and settings files of the clusters that this host has a healthy member of.
members() {
    for entry in $BACKUP_ETCD; do
        [ -e "${entry#*=}" ] || continue
        with "${entry#*=}" etcdctl endpoint health >/dev/null 2>&1 ||
            fail "The member of ${entry%%=*} on this host is not healthy: no archive was made. Start it, or take another."
        echo "$entry"
    done
}

# given_up COUNT DAYS: of the lines TIME NAME, the newest first, names beyond the count and those that are too old, but
# never the newest. 0 means no limit.
given_up() {
    oldest=0
    [ "$2" -eq 0 ] || oldest=$(date -u -d "-$2 days" +%Y%m%dT%H%M%SZ)
    awk -v keep="$1" -v oldest="$oldest" 'NR > 1 && (keep > 0 && NR > keep || $1 < oldest) { print $2 }'
}
# Archives in BACKUP_DIR that exceed the retention limits.
outdated() {
    for file in "$BACKUP_DIR/$BACKUP_NAME"-*T*Z.tar.gz "$BACKUP_DIR/$BACKUP_NAME"-*T*Z.tar.gz.age; do
        [ ! -f "$file" ] || echo "${file##*/}"
    done | sed -nE 's/^(.*-([0-9]{8}T[0-9]{6}Z)\.tar\.gz(\.age)?)$/\2 \1/p' | sort -r |
        given_up "$BACKUP_KEEP_COUNT" "$BACKUP_KEEP_DAYS"
}

# put FOLDER FILE...: copies files and folders, and what links lead to
put() {
    folder=$stage/$1
    shift
    mkdir -p "$folder"
    for file; do [ ! -e "$file" ] || cp -RLp "$file" "$folder"; done
}

put_control_plane() {
    put pki "$BACKUP_KUBE_CERT_DIR"/.
    put config
    # The folder of certificates lies in that of the settings.
    for file in "$BACKUP_KUBE_CONFIG_DIR"/*; do [ "$file" = "$BACKUP_KUBE_CERT_DIR" ] || put config "$file"; done
    put services /etc/systemd/system/kubelet.service /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env
}

put_etcd() {
    put etcd-pki "$BACKUP_ETCD_CERT_DIR"/.
    put etcd-services /etc/etcd.env /etc/etcd-events.env /etc/etcdctl.env /etc/etcdctl-events.env \
        "$BACKUP_ETCD_CONFIG_DIR"/*-bootstrap.env /etc/systemd/system/etcd.service \
            /etc/systemd/system/etcd-events.service
}

# put_snapshot NAME SETTINGS: a verified snapshot, and the number of keys at its revision
put_snapshot() {
    with "$2" etcdctl snapshot save "$stage/$1.db" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        fail "etcdctl took no snapshot of $1."
    }
    status=$($(command -v etcdutl || echo etcdctl) snapshot status "$stage/$1.db" -w json)
    revision=$(printf %s "$status" | sed -n 's/.*"revision":\([0-9]*\).*/\1/p')
    keys=$(with "$2" etcdctl get '' --prefix --limit=1 --keys-only --rev="$revision" -w json |
        sed -n 's/.*"count":\([0-9]*\).*/\1/p')
    echo "\"$1\": {\"keys\": ${keys:-0}, \"snapshot\": $status}" >>"$work/snapshots"
    echo "$1: revision $revision, ${keys:-0} keys"
}

# s3_change OPTION...: a request whose answer is discarded, because a hostile server may send a long one
s3_change() { s3 --output /dev/null "$@"; }

# upload FILE: puts it into the folder of the bucket
upload() {
    sum_of_file=$(sha256sum "$1" | cut -d ' ' -f 1)
    s3_change --header "x-amz-content-sha256: $sum_of_file" --upload-file "$1" "$BACKUP_S3_URL/${1##*/}"
}

# Removes the archives of all hosts of the cluster that exceed the bucket's retention limits, but never the newest.
# Another host may have removed an archive or its checksum already.
tidy_bucket() {
    [ "$BACKUP_S3_KEEP_COUNT" -gt 0 ] || [ "$BACKUP_S3_KEEP_DAYS" -gt 0 ] || return 0
    s3_list "$work" || return 1
    given_up "$BACKUP_S3_KEEP_COUNT" "$BACKUP_S3_KEEP_DAYS" <"$work/archives" >"$work/outdated"
    while read -r old; do
        for file in "$old" "$old.sha256"; do
            s3_change --request DELETE --header "x-amz-content-sha256: $s3_empty" "$BACKUP_S3_URL/$file" || return 1
        done
        echo "removed $BACKUP_S3_URL/$old"
    done <"$work/outdated"
}

versions() {
    config=$BACKUP_KUBE_CONFIG_DIR/kubeadm-config.applied.yaml
    [ ! -e "$config" ] || sed -n 's/^kubernetesVersion: */kubernetes /p' "$config"
    for program in etcd kubelet containerd crio dockerd age; do
        command -v "$program" >/dev/null || continue
        printf '%s %s\n' "$program" "$("$program" --version 2>/dev/null | head -n 1)"
    done
    echo "kernel $(uname -r)"
    sed -n 's/^PRETTY_NAME="\(.*\)"$/system \1/p' /etc/os-release
}

# The lines of `versions` as fields of JSON
version_fields() {
    versions | while read -r name version; do
        printf '%s: %s,' "$(echo "$name" | text)" "$(echo "$version" | text)"
    done | sed 's/,$//'
}

manifest() {
    parts=
    [ -z "$clusters" ] || parts='"etcd"'
    [ ! -e "$stage/pki" ] && [ ! -e "$stage/control-plane.tar.gz" ] || parts=${parts:+$parts, }'"control_plane"'
    echo '{'
    echo '"format": 1,'
    echo "\"cluster\": $(echo "$BACKUP_CLUSTER" | text),"
    echo "\"host\": $(uname -n | text),"
    echo "\"created\": \"$(date -u +%Y-%m-%dT%H:%M:%SZ)\","
    echo "\"parts\": [$parts],"
    echo "\"versions\": {$(version_fields)},"
    echo "\"etcd\": {$([ -z "$clusters" ] || paste -sd, "$work/snapshots")}"
    echo '}'
}

if [ "$mode" = part ]; then
    is_control_plane || fail "There is no $BACKUP_KUBE_CERT_DIR/sa.key, so this host is no control plane."
    stage=$(mktemp -d)
    trap 'rm -rf "$stage"' EXIT
    trap 'exit 1' INT TERM HUP
    put_control_plane
    find "$stage" ! -type f ! -type d -delete
    tar -C "$stage" -cz . | base64
    exit 0
fi

clusters=$(members)
[ -n "$clusters" ] || [ "${BACKUP_NEEDS:-}" != etcd ] ||
    fail "There is no /etc/etcdctl.env on this host. Run playbooks/cluster.yml, which writes it."
[ -n "$clusters" ] || is_control_plane || fail "This host has neither an etcd member nor a control plane."

if [ "$mode" = plan ]; then
    for entry in $clusters; do echo "would take a snapshot of ${entry%%=*}"; done
    ! is_control_plane || echo "would read $BACKUP_KUBE_CERT_DIR and $BACKUP_KUBE_CONFIG_DIR"
    echo "would write $BACKUP_DIR/$archive"
    [ -z "$BACKUP_S3_URL" ] || echo "would write $BACKUP_S3_URL/$archive"
    [ -z "$BACKUP_S3_URL" ] || [ "$BACKUP_S3_KEEP_COUNT$BACKUP_S3_KEEP_DAYS" = 00 ] ||
        echo "would remove old archives there"
    # As if it were there already.
    BACKUP_KEEP_COUNT=$((BACKUP_KEEP_COUNT > 1 ? BACKUP_KEEP_COUNT - 1 : 1))
    outdated | sed "s|^|would remove $BACKUP_DIR/|"
    exit 0
fi

[ "$BACKUP_ENCRYPTION" = none ] || command -v age >/dev/null || fail "There is no program age on this host. Install it."
mkdir -p "$BACKUP_DIR"
chmod 0700 "$BACKUP_DIR"
exec 9>"$BACKUP_DIR/.lock"
flock -w 900 9 || fail "Another backup has been at work in $BACKUP_DIR for 15 minutes."
# The lock is ours, so what has such a name was left by a run that was killed.
rm -rf "$BACKUP_DIR"/.making.*
work=$(mktemp -d "$BACKUP_DIR/.making.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
stage=$work/stage
mkdir "$stage"

for entry in $clusters; do put_snapshot "${entry%%=*}" "${entry#*=}"; done
[ -z "$clusters" ] || put_etcd
if is_control_plane; then
    put_control_plane
elif [ -n "${BACKUP_PART:-}" ]; then
    # Another host's archive stays closed here.
    base64 -d "$BACKUP_PART" >"$stage/control-plane.tar.gz"
fi
printf '%s\n' "$BACKUP_EXTRA_PATHS" | while IFS= read -r path; do
    [ -z "$path" ] || put "extra${path%/*}" "$path"
done
printf '%s\n' "$BACKUP_INVENTORY" >"$stage/inventory.json"
manifest >"$stage/manifest.json"
# Sockets and devices are no data.
find "$stage" ! -type f ! -type d -delete
(cd "$stage" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$work/sums"
mv "$work/sums" "$stage/SHA256SUMS"

tar -C "$stage" -c . | gzip -1 >"$work/archive"
# Reads all of it.
tar -tzf "$work/archive" ./SHA256SUMS >/dev/null || fail "The archive cannot be read back."
rm -rf "$stage"
if [ "$BACKUP_ENCRYPTION" = age ]; then
    printf '%s\n' "$BACKUP_RECIPIENTS" >"$work/recipients"
    age -R "$work/recipients" -o "$work/archive.age" "$work/archive"
    mv "$work/archive.age" "$work/archive"
fi
sync "$work/archive"
mv "$work/archive" "$BACKUP_DIR/$archive"
sync "$BACKUP_DIR"
sum=$(sha256sum "$BACKUP_DIR/$archive" | cut -d ' ' -f 1)
echo "sha256 $sum"
echo "wrote $BACKUP_DIR/$archive, $(stat -c %s "$BACKUP_DIR/$archive") bytes"
outdated | while read -r old; do
    rm -f "$BACKUP_DIR/$old"
    echo "removed $BACKUP_DIR/$old"
done
[ -n "$BACKUP_S3_URL" ] || exit 0
# Exit code 3 means that the archive is good nevertheless.
printf '%s  %s\n' "$sum" "$archive" >"$work/$archive.sha256"
upload "$BACKUP_DIR/$archive" && upload "$work/$archive.sha256" ||
    { echo "The archive could not be written to $BACKUP_S3_URL." >&2; exit 3; }
echo "wrote $BACKUP_S3_URL/$archive"
tidy_bucket || {
    echo "Old archives could not be removed from $BACKUP_S3_URL. The keys have to be allowed to list and to delete." >&2
    exit 3
}
