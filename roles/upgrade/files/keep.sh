#!/bin/sh
# keep.sh FOLDER PROGRAMS PATH...: keeps the programs and the settings that exist in FOLDER, which replaces an earlier
# one atomically. Programs are hard links where the file system allows it, because tasks that replace a program create a
# new file; so they take no space.
set -eu
umask 077
old=$1 programs=$2
shift 2

rm -rf "$old.new"
mkdir -p "$old.new/programs" "$old.new/settings"
find "$programs" -maxdepth 1 -type f ! -name '.*' | while read -r file; do
    cp -al "$file" "$old.new/programs/" 2>/dev/null || cp -a "$file" "$old.new/programs/"
done
found=
for path; do [ ! -e "$path" ] || found="$found ${path#/}"; done
# The status 1 means that a file changed meanwhile.
# shellcheck disable=SC2086 # paths of the roles, without spaces
tar -C / -cf "$old.new/settings.tar" $found || [ $? = 1 ]
tar -C "$old.new/settings" -xf "$old.new/settings.tar"
rm "$old.new/settings.tar"
if [ -e "$old" ]; then
    rm -rf "$old.gone"
    mv "$old" "$old.gone"
fi
mv "$old.new" "$old"
rm -rf "$old.gone"
