# Roles from git repositories, archives and requirements files; versions, --force, dependencies, list, remove.
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c
role() { # a repository with a role
    git init --quiet --initial-branch=main "$1"
    mkdir "$1/meta" "$1/tasks"
    printf 'galaxy_info:\n  author: me\n  description: role %s\ndependencies: %s\n' "$1" "${2:-[]}" > "$1/meta/main.yml"
    echo '[]' > "$1/tasks/main.yml"
    git -C "$1" add . && git -C "$1" commit --quiet -m first && git -C "$1" tag v1
    echo '- debug:' > "$1/tasks/main.yml"
    git -C "$1" commit --quiet -a -m second && git -C "$1" tag v2
}
role base
role top "[{src: 'git+file://$PWD/base', version: v1}]"
role plain "[beside]"
mkdir nothing && (cd nothing && git init --quiet && echo x > x && git add . && git commit --quiet -m x)
export ANSIBLE_ROLES_PATH=$PWD/roles

version() { sed -n 's/^version: *//p' "roles/$1/meta/.galaxy_install_info"; }

show ansible-galaxy role list
show ansible-galaxy role install "git+file://$PWD/top,v1"
version top; version base; ls -A roles/top; cat roles/top/tasks/main.yml
show ansible-galaxy role install "git+file://$PWD/top,v1"
show ansible-galaxy role install "git+file://$PWD/top,v2"
show ansible-galaxy role install --force "git+file://$PWD/top,v2"
cat roles/top/tasks/main.yml
show ansible-galaxy install --force-with-deps "git+file://$PWD/top,v1"
show ansible-galaxy role install "git+file://$PWD/top,,other" --no-deps
show ansible-galaxy role install -g "git+file://$PWD/top,main,kept" -n
ls -A roles/kept
show ansible-galaxy role install "git+file://$PWD/plain"
show ansible-galaxy role list | sort
show ansible-galaxy role list top
show ansible-galaxy role list none

echo "--- an archive"
git -C base archive --format=tar.gz --prefix=base-1.0/ -o "$PWD/base-1.0.tar.gz" v1
show ansible-galaxy role install base-1.0.tar.gz,1.0,archived
ls -A roles/archived
show ansible-galaxy role install "file://$PWD/base-1.0.tar.gz,,by_url"

echo "--- requirements"
cat > requirements.yml <<END
roles:
  - src: file://$PWD/base
    scm: git
    version: v2
    name: from_file
  - name: from_name
    src: git+file://$PWD/base
  - src: base-1.0.tar.gz
    name: from_archive
  - include: more.yml
collections: []
END
echo "[{src: 'git+file://$PWD/base', name: included, version: v1}]" > more.yml
show ansible-galaxy role install -r requirements.yml
version from_file; version included
show ansible-galaxy install -r requirements.yml
echo "- {src: 'git+file://$PWD/base', name: old_form}" > old.yml
show ansible-galaxy install -r old.yml -p new_roles
show ansible-galaxy role list -p new_roles | sort
echo "[]" > empty.yml
show ansible-galaxy install -r empty.yml

echo "--- what cannot be"
show ansible-galaxy role install "git+file://$PWD/nothing"
show ansible-galaxy role install "git+file://$PWD/base,v9,failing" | sed 's/\(successfully:\).*/\1/'
show ansible-galaxy role install -i "git+file://$PWD/nothing" "git+file://$PWD/base,v1,after"
show ansible-galaxy role install -r missing.yml
show ansible-galaxy role install
echo "roles: []" > requirements.txt
show ansible-galaxy role install -r requirements.txt
echo "rolls: []" > wrong.yml
show ansible-galaxy role install -r wrong.yml
mkdir roles/stranger
show ansible-galaxy role install "git+file://$PWD/base,v1,stranger"
show ansible-galaxy role install --force "git+file://$PWD/base,v1,stranger"
echo text > text.tar.gz
show ansible-galaxy role install text.tar.gz,1,text

echo "--- remove"
show ansible-galaxy role remove top none other
ls roles
show ansible-galaxy role info --offline none
show ansible-galaxy role info --offline base | grep -v -e install_date -e path:
