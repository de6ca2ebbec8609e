# Prints a line for each package that a host of this system may need for the packages in the arguments: see apt.sh. dnf
# cannot print checksums, so the packages are downloaded into a temporary folder, and their signatures are checked.
set -eu
export LC_ALL=C
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
download() {
    dnf -q -y --setopt=install_weak_deps=False download --resolve --alldeps --destdir="$folder" "$@"
}
fail() {
    echo "$1" >&2
    exit 1
}
download "$@" >&2 || fail "dnf download failed"
rpmkeys --checksig "$folder"/*.rpm >"$folder/signatures" || true
if grep -v 'signatures OK$' "$folder/signatures" >&2; then
    fail "the packages above have no valid signature"
fi
download --url "$@" >"$folder/addresses" || fail "dnf download --url failed"
sort -u "$folder/addresses" | while read -r address; do
    file=${address##*/}
    cd "$folder"
    sum=$(sha256sum "$file" | cut -d ' ' -f 1)
    rpm -qp --qf "%{NAME};%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE};$file;$address;$sum;$(stat -c %s \
        "$file");%{ARCH};;;;;;;\n" "$file"
done
