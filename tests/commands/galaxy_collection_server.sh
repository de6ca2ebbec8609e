# Collections on a Galaxy server: versions, dependencies, upgrades, downloads, verification. The files below $SERVER_FILES
# are the answers of the server at $SERVER_URL.
page() { mkdir -p "$SERVER_FILES/$1"; cat > "$SERVER_FILES/$1/index.html"; }
publish() { # NAMESPACE NAME VERSION [DEPENDENCY RANGE]
    local place=src/$1.$2-$3 api=api/v3/collections/$1/$2 file=$1-$2-$3.tar.gz dependencies=
    [ $# -lt 5 ] || dependencies="\"$4\": \"$5\""
    mkdir -p "$place/meta"
    printf '%s\n' "namespace: $1" "name: $2" "version: $3" "readme: README.md" "authors: [Me]" \
        "dependencies: {${dependencies//\": /\": }}" > "$place/galaxy.yml"
    echo "# $2 $3" > "$place/README.md"
    echo "requires_ansible: '>=2.9'" > "$place/meta/runtime.yml"
    ansible-galaxy collection build "$place" --output-path "$SERVER_FILES" > /dev/null
    echo "{\"version\": \"$3\", \"namespace\": {\"name\": \"$1\"}, \"collection\": {\"name\": \"$2\"}, \"signatures\": [],
        \"href\": \"/$api/versions/$3/\", \"download_url\": \"$SERVER_URL/$file\",
        \"artifact\": {\"sha256\": \"$(sha256sum < "$SERVER_FILES/$file" | cut -d' ' -f1)\"},
        \"metadata\": {\"dependencies\": {$dependencies}}}" | page "$api/versions/$3"
    echo '{"updated_at": "2026-01-01T00:00:00Z"}' | page "$api"
    versions+="${versions:+, }{\"version\": \"$3\", \"href\": \"/$api/versions/$3/\"}"
    echo "{\"data\": [$versions], \"links\": {\"next\": null}}" | page "$api/versions"
}
# Leaves out a collection that ansible-core has inside, and the widths, which depend on it.
listed() { ansible-galaxy collection list "$@" | sed '/^$/d; /^# .*_internal/,/^ansible._proto/d; s/  */ /g; s/--*/-/g'; }
run() { show "$@" | sed "/^Downloading http/s/ to .*//; s#$SERVER_URL#SERVER#"; }
reason() { show "$@" | sed 's/\(requested dependencies map\).*/\1/; /^rc=/p; /looking at multiple/d; /ERROR/q'; }
echo '{"available_versions": {"v3": "v3/"}}' | page api
versions=
for version in 1.0.0 1.2.0 1.10.0 2.0.0 2.1.0-beta.1; do publish me base "$version"; done
versions=
publish me top 0.1.0 me.base ">=1.0.0,<2.0.0"
publish me top 0.2.0 me.base ">=2.0.0"
versions=
publish me odd 1.0.0 me.base 1.2.0
versions=
publish me lost 1.0.0 me.missing "*"
export ANSIBLE_GALAXY_SERVER=$SERVER_URL ANSIBLE_COLLECTIONS_PATH=$PWD/all

run ansible-galaxy collection install me.base
run ansible-galaxy collection install me.base
run ansible-galaxy collection install me.base:2.1.0-beta.1
run ansible-galaxy collection install me.base:1.0.0
run ansible-galaxy collection install me.base -U
run ansible-galaxy collection install me.base --pre -U
run ansible-galaxy collection install 'me.base:<2' --force
run ansible-galaxy collection install 'me.base:!=2.0.0,>1.2' --force
run ansible-galaxy collection install me.top
listed
run ansible-galaxy collection install me.top:0.1.0 --force-with-deps
run ansible-galaxy collection install "$SERVER_URL/me-base-1.2.0.tar.gz"

echo "--- what cannot be"
reason ansible-galaxy collection install me.odd me.top:0.2.0
reason ansible-galaxy collection install 'me.base:>=3'
reason ansible-galaxy collection install me.lost
reason ansible-galaxy collection install me.nothere
run ansible-galaxy collection install me.lost -n

echo "--- verify"
run ansible-galaxy collection verify me.base | grep -v 'MANIFEST.json hash'
echo changed >> all/ansible_collections/me/base/README.md
run ansible-galaxy collection verify me.base | grep -v 'MANIFEST.json hash'
run ansible-galaxy collection verify me.base:1.0.0
run ansible-galaxy collection verify me.nothere

echo "--- download"
run ansible-galaxy collection download me.top -p saved
ls saved
cat saved/requirements.yml
rm -rf all
(cd saved && run ansible-galaxy collection install -r requirements.yml --offline)

echo "--- requirements"
rm -rf all
printf '%s\n' "collections:" "- name: me.top" "  version: '>=0.1.0,<0.2.0'" "- name: me.base" "  source: $SERVER_URL" > requirements.yml
run ansible-galaxy install -r requirements.yml
listed
