# The lock file of collections: what was installed is installed again, and nothing else.
export ANSIBLE_COLLECTIONS_PATH=$PWD/all ANSIBLE_ROLES_PATH=$PWD/roles
collection() { # NAME VERSION [DEPENDENCIES]
    mkdir -p "src/$1"
    printf '%s\n' "namespace: me" "name: $1" "version: $2" "readme: README.md" "authors: [Me]" "dependencies: ${3:-{\}}" > "src/$1/galaxy.yml"
    echo "# $1 $2" > "src/$1/README.md"
    windlass galaxy collection build "src/$1" --force > /dev/null
}
collection base 1.0.0
collection top 1.0.0 "{me.base: '>=1.0.0'}"
printf '%s\n' "collections: [me-top-1.0.0.tar.gz, me-base-1.0.0.tar.gz]" > requirements.yml
show windlass galaxy collection install -r requirements.yml --lock
sed 's/sha256: .*/sha256: .../' requirements.lock
rm -rf all
show windlass galaxy install -r requirements.yml --locked
show windlass galaxy install -r requirements.yml --locked
echo changed > all/ansible_collections/me/base/README.md
show windlass galaxy install -r requirements.yml --locked
show windlass galaxy install -r requirements.yml --locked --force

echo "--- the same version with other content"
echo other > src/base/README.md
windlass galaxy collection build src/base --force
rm -rf all
show windlass galaxy install -r requirements.yml --locked
ls all/ansible_collections/me
echo "--- a collection that is not locked"
collection more 1.0.0
printf '%s\n' "collections: [me-more-1.0.0.tar.gz]" > requirements.yml
show windlass galaxy collection install -r requirements.yml --locked
echo "--- roles beside collections"
mkdir -p role/meta && echo 'dependencies: []' > role/meta/main.yml && tar cf role.tar role
printf '%s\n' "roles: [{src: role.tar, name: mine}]" "collections: [me-more-1.0.0.tar.gz]" > both.yml
show windlass galaxy install -r both.yml --lock
show windlass galaxy collection install -r both.yml --lock
sed 's/sha256: .*/sha256: .../' both.lock
show windlass galaxy role install -r both.yml --force
echo "--- what a requirements file may not have"
for entry in "{name: me.base, verison: 1.0.0}" "{name: me.base, type: gitt}" "{name: me.base, version: one}" "[a]" "{name: a/b}"; do
    echo "collections: [$entry]" > wrong.yml
    show windlass galaxy collection install -r wrong.yml
done
echo "--- which requirements exclude each other"
collection base 2.0.0
collection base 1.0.0
printf '%s\n' "collections: [me-top-1.0.0.tar.gz, {name: me.base, version: '<1'}]" > conflict.yml
rm -rf all
show windlass galaxy collection install -r conflict.yml --offline
printf '%s\n' "collections: [me-top-1.0.0.tar.gz, me-base-1.0.0.tar.gz]" > fits.yml
collection top 1.0.0 "{me.base: '>=2.0.0'}"
show windlass galaxy collection install -r fits.yml --offline
show windlass galaxy collection install fits.yml nodot
