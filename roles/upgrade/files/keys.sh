#!/bin/sh
# keys.sh FOLDER TIME COUNT PATH...: packs the paths that exist into FOLDER/keys-TIME.tar.gz, and keeps the newest COUNT
# archives and snapshots of each kind. RECIPIENTS, in the environment, are public keys of age, one a line: with them the
# archive is keys-TIME.tar.gz.age, and nothing unencrypted is written.
set -eu
umask 077
folder=$1 time=$2 count=$3
shift 3

found=
for path; do [ ! -e "$path" ] || found="$found ${path#/}"; done
# A run that was killed has left them.
rm -rf "$folder"/.making.*
work=$(mktemp -d "$folder/.making.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The status 1 means that a file changed meanwhile.
# shellcheck disable=SC2086 # paths
pack() { tar -C / -cz $found || [ $? = 1 ] && : >"$work/packed"; }

file=keys-$time.tar.gz
if [ -z "$RECIPIENTS" ]; then
    pack >"$work/archive"
else
    file=$file.age
    printf '%s\n' "$RECIPIENTS" >"$work/recipients"
    pack | age -R "$work/recipients" -o "$work/archive"
fi
[ -e "$work/packed" ] || { echo "The keys could not be packed." >&2; exit 1; }
mv "$work/archive" "$folder/$file"
cd "$folder"
for kind in keys etcd etcd-events; do
    # Names without spaces, that this script and the snapshots have.
    # shellcheck disable=SC2012
    ls -t $kind-[0-9]* 2>/dev/null | tail -n +$((count + 1)) | xargs -r rm -f
done
