# What scripts look for to know what they have.
lines() { grep -e core -e config -e search -e 'collection location' -e executable; }
ansible --version | lines
ansible-galaxy --version | lines
printf '[defaults]\nlibrary = modules:/srv/m\ncollections_path = here\n' > ansible.cfg
ansible-playbook --version | lines
