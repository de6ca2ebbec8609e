# New roles: from the usual skeleton, from one's own, over one that is there.
show ansible-galaxy role init thing
find thing | sort
cat thing/meta/main.yml | grep -v '^ *#' | grep .
show ansible-galaxy init thing
echo old > thing/extra; echo old > thing/tasks/main.yml
show ansible-galaxy init --force --offline --init-path=. thing
find thing -name extra; grep -c old thing/tasks/main.yml
show ansible-galaxy role init --init-path deep/er other
ls deep/er
echo x > file
show ansible-galaxy role init file
mkdir -p skeleton/tasks skeleton/templates skeleton/{{role_name}}_d skeleton/.git
echo '- debug: msg={{ role_name }}-{{ extra }}' > skeleton/tasks/main.yml.j2
echo '{{ left }}' > skeleton/templates/t.j2
echo '{{ left }}' > skeleton/plain
echo '{{ author }}, {{ description }}, {{ license }}, {{ min_ansible_version }}' > skeleton/README.md.j2
echo x > skeleton/.git_keep; echo x > skeleton/.git/x
ln -s plain skeleton/link; chmod 755 skeleton/plain
show ansible-galaxy role init --role-skeleton skeleton -e extra=more own
find own | sort; cat own/tasks/main.yml own/templates/t.j2 own/plain own/README.md; readlink own/link; stat -c %a own/plain
show ansible-galaxy role init --role-skeleton none own2
