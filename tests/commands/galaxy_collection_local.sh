# Collections from directories, archives and git repositories: build, install, list, verify.
collection() { # NAMESPACE NAME VERSION [DEPENDENCIES]: sources below src
    local place=src/$1.$2-$3
    mkdir -p "$place/meta" "$place/roles/r/tasks" "$place/docs/draft"
    printf '%s\n' "namespace: $1" "name: $2" "version: $3" "readme: README.md" "authors: [Me]" "description: it is $2" \
        "license: [Apache-2.0]" "dependencies: ${4:-{\}}" "build_ignore: ['*.secret', docs/draft]" > "$place/galaxy.yml"
    echo "# $2" > "$place/README.md"
    echo "requires_ansible: '>=2.9'" > "$place/meta/runtime.yml"
    echo "- debug: msg=$3" > "$place/roles/r/tasks/main.yml"
    echo one > "$place/docs/one"
    touch "$place/a.secret" "$place/docs/draft/two" "$place/b.pyc"
}
# Leaves out a collection that ansible-core has inside, and the widths, which depend on it.
listed() { ansible-galaxy collection list "$@" | sed '/^$/d; /^# .*_internal/,/^ansible._proto/d; s/  */ /g; s/--*/-/g'; }
export ANSIBLE_COLLECTIONS_PATH=$PWD/all
collection me base 1.0.0
collection me base 1.2.0
collection me top 0.1.0 "{me.base: '>=1.0.0,<2.0.0'}"

echo "--- build"
show ansible-galaxy collection build src/me.base-1.0.0
show ansible-galaxy collection build src/me.base-1.0.0
show ansible-galaxy collection build src/me.base-1.0.0 -f
show ansible-galaxy collection build src/me.base-1.2.0 src/me.top-0.1.0 --output-path out
tar tzf me-base-1.0.0.tar.gz | sed 's#/$##' | sort
tar xzOf out/me-top-0.1.0.tar.gz MANIFEST.json | grep -v chksum_sha256
show ansible-galaxy collection build src

echo "--- install"
show ansible-galaxy collection install out/me-base-1.2.0.tar.gz
show ansible-galaxy collection install out/me-base-1.2.0.tar.gz
show ansible-galaxy collection install me-base-1.0.0.tar.gz
show ansible-galaxy collection install -f me-base-1.0.0.tar.gz
show ansible-galaxy collection install out/me-top-0.1.0.tar.gz
find all -type f | sort
listed
listed me.base
show ansible-galaxy collection list me.none
show ansible-galaxy collection list nodot
show ansible-galaxy collection install src/me.base-1.2.0 --force
git init --quiet --initial-branch=main repository
cp -r src/me.base-1.2.0/. repository
git -C repository add .
git -C repository -c user.name=a -c user.email=a@b.c commit --quiet -m first
git -C repository tag v1
show ansible-galaxy collection install "git+file://$PWD/repository,v1" --force 2>&1 | grep -v -e ^Cloning -e '^ ' -e ^HEAD -e ^Note -e ^Or -e ^Turn -e 'git switch' -e state -e changes -e 'do so' -e ^You -e ^If
show ansible-galaxy collection install out/me-top-0.1.0.tar.gz -p elsewhere -f

echo "--- requirements"
printf '%s\n' "collections:" "- name: out/me-top-0.1.0.tar.gz" "- src/me.base-1.2.0" > requirements.yml
show ansible-galaxy collection install -r requirements.yml
rm -rf all
show ansible-galaxy install -r requirements.yml
listed
show ansible-galaxy collection install
show ansible-galaxy collection install -r requirements.yml me.base
show ansible-galaxy collection install --offline me.base:1.2.0

echo "--- verify"
show ansible-galaxy collection verify --offline me.base | grep -v 'MANIFEST.json hash'
echo changed >> all/ansible_collections/me/base/README.md
rm all/ansible_collections/me/base/docs/one
echo new > all/ansible_collections/me/base/zzz
show ansible-galaxy collection verify --offline me.base | grep -v 'MANIFEST.json hash'
show ansible-galaxy collection verify --offline me.none
show ansible-galaxy collection download -n out/me-top-0.1.0.tar.gz src/me.base-1.0.0 -p saved | sort
ls saved
sort saved/requirements.yml
show ansible-galaxy collection init you.fresh
find you | sort
show ansible-galaxy collection init you.fresh
