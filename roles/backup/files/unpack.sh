#!/bin/sh
# unpack.sh FOLDER: unpacks FOLDER/archive.tar.gz into FOLDER/content, compares its checksums and prints its manifest.
set -eu
umask 077
fail() { printf 'The archive is not used: %s\n' "$*" >&2; exit 1; }

# unpack ARCHIVE FOLDER: regular files and folders only, none outside
unpack() {
    mkdir -p "$2"
    ! tar -tvzf "$1" | grep -qv '^[d-]' || fail "it has links or devices."
    # tar refuses names that lead out of the folder.
    tar -xzf "$1" -C "$2" --no-same-owner --no-same-permissions || fail "it cannot be unpacked."
}

cd "$1"
rm -rf content
unpack archive.tar.gz content
cd content
[ -f SHA256SUMS ] && [ -f manifest.json ] || fail "it has no manifest."
sha256sum --quiet --strict -c SHA256SUMS >&2 || fail "a checksum differs."
find . -type f ! -path ./SHA256SUMS | sort >../files
sed 's/^[0-9a-f]*  //' SHA256SUMS | sort | cmp -s - ../files || fail "it has other files than its list of checksums."
# Another host made it, so it cannot replace existing files.
if [ -f control-plane.tar.gz ] && [ ! -e pki ]; then
    rm -rf ../control-plane
    unpack control-plane.tar.gz ../control-plane
    for folder in pki config services; do [ ! -d "../control-plane/$folder" ] || mv "../control-plane/$folder" .; done
fi
cat manifest.json
