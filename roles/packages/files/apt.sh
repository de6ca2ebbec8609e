# Prints a line for each package that a host of this system may need for the packages in the arguments. Fields are
# between semicolons. Needs no root, and changes nothing on the host: lists and caches are in a temporary folder.
# dpkg's status is empty, so packages of the base system are printed as well: other hosts may lack them, or have older
# ones than a dependency wants. A host takes only what it needs from the lock.
set -eu
export LC_ALL=C
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# apt fetches as another user.
chmod 755 "$folder"
run() {
    program=$1
    shift
    "$program" -qq -o Dir::State="$folder" -o Dir::Cache="$folder" -o Dir::State::status=/dev/null "$@"
}
fail() {
    echo "$1" >&2
    exit 1
}
run apt-get -o APT::Update::Error-Mode=any update >&2 || fail "apt-get update failed"
run apt-get -y --no-install-recommends --print-uris install -- "$@" >"$folder/addresses" ||
    fail "apt-get install --print-uris failed"
# Names of files are NAME_VERSION_ARCHITECTURE.deb, with %3a for a colon.
cut -d ' ' -f 2 "$folder/addresses" | sed 's/_[^_]*$//; s/_/=/; s/%3a/:/' | xargs apt-cache -o Dir::State="$folder" \
    -o Dir::Cache="$folder" -o Dir::State::status=/dev/null show >"$folder/descriptions" || fail "apt-cache show failed"
# The same version may be in two repositories; the size shows which one the address belongs to.
awk '
    NR == FNR { address[$2] = substr($1, 2, length($1) - 2); size[$2] = $3; count++; next }
    /^[A-Za-z0-9-]+: / { key = $1; sub(/:$/, "", key); value[key] = substr($0, length(key) + 3); next }
    /^$/ { describe() }
    END { describe(); if (count != 0) { print "apt does not describe every package" | "cat >&2"; exit 1 } }
    function describe(  name, file, i) {
        name = value["Version"]
        gsub(/:/, "%3a", name)
        name = value["Package"] "_" name "_" value["Architecture"] ".deb"
        if (name in address && size[name] == value["Size"]) {
            file = value["Filename"]
            sub(/.*\//, "", file)
            printf "%s;%s;%s;", value["Package"], value["Version"], file
            printf "%s;%s;%s", address[name], value["SHA256"], value["Size"]
            for (i = 1; i <= 8; i++) printf ";%s", value[fields[i]]
            print ""
            delete address[name]
            count--
        }
        for (key in value) delete value[key]
    }
    BEGIN { split("Architecture Multi-Arch Pre-Depends Depends Provides Conflicts Breaks Replaces", fields, " ") }
' "$folder/addresses" "$folder/descriptions" >"$folder/lines"
sort "$folder/lines"
