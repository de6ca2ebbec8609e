# The lock file: what was installed is installed again, and nothing else.
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c
export GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z
export ANSIBLE_ROLES_PATH=$PWD/roles
repository() {
    git init --quiet --initial-branch=main "$1"
    mkdir "$1/meta" "$1/tasks"
    echo "dependencies: ${2:-[]}" > "$1/meta/main.yml"
    echo '[]' > "$1/tasks/main.yml"
    git -C "$1" add . && git -C "$1" commit --quiet -m first
}
mkdir here
repository here/base
repository here/top "[{src: 'git+file://$PWD/here/base', version: main}]"
git -C here/base archive --format=tar.gz --prefix=base/ -o "$PWD/base.tar.gz" main
printf '%s\n' "- {name: top, src: 'git+file://$PWD/here/top'}" "- {name: archived, src: base.tar.gz}" > requirements.yml
show windlass galaxy install -r requirements.yml --lock
sed 's/\(sha256\|commit\): .*/\1: .../' requirements.lock
echo '- debug:' > here/base/tasks/main.yml
git -C here/base commit --quiet -a -m second
show windlass galaxy install -r requirements.yml --locked
rm -rf roles
show windlass galaxy install -r requirements.yml --locked
cat roles/base/tasks/main.yml
cp requirements.lock first.lock
show windlass galaxy install -r requirements.yml --lock
cut -d: -f1 requirements.lock
cp first.lock requirements.lock
echo '- debug:' > roles/base/tasks/main.yml
show windlass galaxy install -r requirements.yml --locked
show windlass galaxy install -r requirements.yml --locked --force
echo 'more: 1' >> roles/archived/meta/main.yml
show windlass galaxy install -r requirements.yml --locked
git -C here/base archive --format=tar.gz --prefix=base/ -o "$PWD/base.tar.gz" main
show windlass galaxy install -r requirements.yml --locked --force archived
echo "- {name: unknown, src: base.tar.gz}" >> requirements.yml
show windlass galaxy install -r requirements.yml --locked -i
show windlass galaxy install -r other.yml --locked
show windlass galaxy install base.tar.gz --lock | head -3
echo "--- an archive with a link that leads out"
mkdir -p bad/meta && echo 'dependencies: []' > bad/meta/main.yml && ln -s ../../../etc/passwd bad/meta/link
tar cf bad.tar bad
show windlass galaxy role install bad.tar,1,bad
ls -A roles | grep bad
