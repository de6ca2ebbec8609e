# Lines that scripts look for to learn the version.
lines() { grep -e core -e config -e search -e 'collection location' -e executable; }
ansible --version | lines
ansible-galaxy --version | lines
printf '[defaults]\nlibrary = modules:/srv/m\ncollections_path = here\n' > ansible.cfg
ansible-playbook --version | lines
