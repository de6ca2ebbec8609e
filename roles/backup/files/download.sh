# shellcheck shell=sh disable=SC2154
# download.sh: takes an archive from the folder BACKUP_S3_URL of a bucket into BACKUP_DIR, unless the same one exists,
# and prints `archive NAME`. BACKUP_ARCHIVE is its name, or `latest` for the newest one of the cluster BACKUP_NAME. The
# checksum that backup.sh has put beside it is compared. s3.sh precedes it.
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

archive=$BACKUP_ARCHIVE
if [ "$archive" = latest ]; then
    s3_list "$work" || fail "$BACKUP_S3_URL cannot be listed. Check backup_s3_url, backup_s3_region and the keys."
    archive=$(head -n 1 "$work/archives" | cut -d ' ' -f 2)
    [ -n "$archive" ] || fail "$BACKUP_S3_URL has no archive $BACKUP_NAME-TIME.tar.gz."
fi

s3_get 1000 "$work/noted" "$BACKUP_S3_URL/$archive.sha256" ||
    fail "$BACKUP_S3_URL/$archive.sha256 cannot be read, which has the archive's checksum."
noted=$(head -c 64 "$work/noted" | tr -cd 0-9a-f)
[ "${#noted}" = 64 ] || fail "$BACKUP_S3_URL/$archive.sha256 is no checksum."
# Compares a file with the noted checksum.
right() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d ' ' -f 1)" = "$noted" ]; }
if ! right "$BACKUP_DIR/$archive"; then
    [ ! -e "$BACKUP_DIR/$archive" ] ||
        fail "$BACKUP_DIR/$archive exists and differs from the one in the bucket. Move it away, or name its path."
    s3_get 5368709120 "$work/archive" "$BACKUP_S3_URL/$archive" || fail "$BACKUP_S3_URL/$archive cannot be read."
    right "$work/archive" || fail "$BACKUP_S3_URL/$archive does not have the checksum in $archive.sha256."
    mv "$work/archive" "$BACKUP_DIR/$archive"
    echo "wrote $BACKUP_DIR/$archive"
fi
printf '%s  %s\n' "$noted" "$archive" >"$work/sum"
cmp -s "$work/sum" "$BACKUP_DIR/$archive.sha256" || mv "$work/sum" "$BACKUP_DIR/$archive.sha256"
echo "archive $archive"
