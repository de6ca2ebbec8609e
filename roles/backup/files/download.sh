#!/bin/sh
# download.sh: takes an archive from the folder BACKUP_S3_URL of a bucket into BACKUP_DIR, unless the same one exists,
# and prints `archive NAME`. BACKUP_ARCHIVE is its name, or `latest` for the newest one of the cluster BACKUP_NAME. The
# checksum that backup.sh has put beside it is compared. The server is not trusted: names, sizes and times are limited.
set -eu
umask 077
export LC_ALL=C
fail() { printf 'No archive was taken from S3: %s\n' "$*" >&2; exit 1; }
command -v curl >/dev/null || fail "this machine has no program curl."

mkdir -p "$BACKUP_DIR"
find "$BACKUP_DIR" -maxdepth 1 -name '.taking.*' -mmin +1440 -exec rm -rf {} +
work=$(mktemp -d "$BACKUP_DIR/.taking.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
empty=$(sha256sum </dev/null | cut -d ' ' -f 1)

# get BYTES FILE ADDRESS: a server need not say how much it sends, so the file has a limit too. The keys go through a
# pipe, so that no list of processes shows them.
get() {
    (
        ulimit -f $(($1 / 512 + 1))
        printf 'user = "%s:%s"\n' "$BACKUP_S3_ACCESS_KEY" "$BACKUP_S3_SECRET_KEY" |
            curl --silent --show-error --fail --retry 3 --connect-timeout 30 --speed-limit 1000 --speed-time 60 \
                --max-filesize "$1" --proto '=http,https' --config - --aws-sigv4 "aws:amz:$BACKUP_S3_REGION:s3" \
                --header "x-amz-content-sha256: $empty" --output "$2" "$3"
    )
}

# The newest archive by the time in its name, unless that is to come. A page of the listing has up to 1000 names in order.
latest() {
    server=$(printf %s "$BACKUP_S3_URL" | sed -E 's|^(https?://[^/]+)/.*|\1|')
    path=${BACKUP_S3_URL#"$server"/}
    bucket=${path%%/*}
    folder=
    [ "$bucket" = "$path" ] || folder=${path#*/}/
    prefix=$(printf %s "$folder$BACKUP_NAME-" | sed 's|/|%2F|g')
    after=
    for page in $(seq 100); do
        # The signature needs the parameters in order.
        get 4000000 "$work/page" "$server/$bucket?list-type=2&prefix=$prefix${after:+&start-after=$after}" || return 1
        tr '<' '\n' <"$work/page" | sed -n 's|^Key>||p' >"$work/keys"
        sed -nE 's|^.*/||; /-[0-9]{8}T[0-9]{6}Z\.tar\.gz(\.age)?$/p' "$work/keys" >>"$work/names"
        grep -q '<IsTruncated>true<' "$work/page" || return 0
        after=$(tail -n 1 "$work/keys" | tr -cd '0-9A-Za-z._/-' | sed 's|/|%2F|g')
    done
}

archive=$BACKUP_ARCHIVE
if [ "$archive" = latest ]; then
    : >"$work/names"
    latest || fail "$BACKUP_S3_URL cannot be listed. Check backup_s3_url, backup_s3_region and the keys."
    archive=$(grep -E "^$(printf %s "$BACKUP_NAME" | sed 's/\./\\./g')-[0-9TZ]+\.tar\.gz(\.age)?$" "$work/names" |
        sed -E 's/^.*-([0-9]{8}T[0-9]{6}Z)\.tar.*$/\1 &/' | awk -v end="$(date -u -d '+1 day' +%Y%m%dT%H%M%SZ)" '$1 < end' | sort | tail -n 1 | cut -d ' ' -f 2)
    [ -n "$archive" ] || fail "$BACKUP_S3_URL has no archive $BACKUP_NAME-TIME.tar.gz."
fi

get 1000 "$work/noted" "$BACKUP_S3_URL/$archive.sha256" ||
    fail "$BACKUP_S3_URL/$archive.sha256 cannot be read, which has the archive's checksum."
noted=$(head -c 64 "$work/noted" | tr -cd 0-9a-f)
[ "${#noted}" = 64 ] || fail "$BACKUP_S3_URL/$archive.sha256 is no checksum."
# Compares a file with the noted checksum.
right() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d ' ' -f 1)" = "$noted" ]; }
if ! right "$BACKUP_DIR/$archive"; then
    [ ! -e "$BACKUP_DIR/$archive" ] ||
        fail "$BACKUP_DIR/$archive exists and differs from the one in the bucket. Move it away, or name its path."
    get 5368709120 "$work/archive" "$BACKUP_S3_URL/$archive" || fail "$BACKUP_S3_URL/$archive cannot be read."
    right "$work/archive" || fail "$BACKUP_S3_URL/$archive does not have the checksum in $archive.sha256."
    mv "$work/archive" "$BACKUP_DIR/$archive"
    echo "wrote $BACKUP_DIR/$archive"
fi
printf '%s  %s\n' "$noted" "$archive" >"$work/sum"
cmp -s "$work/sum" "$BACKUP_DIR/$archive.sha256" || mv "$work/sum" "$BACKUP_DIR/$archive.sha256"
echo "archive $archive"
