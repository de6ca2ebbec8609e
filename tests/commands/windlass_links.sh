# Ansible's names as links, which never replace a file of somebody else; man pages.
program=$(readlink -f "$(command -v windlass)")
named() { sed "s#$program#PROGRAM#"; }
windlass links install bin | named
bin/ansible-playbook --version | head -1
windlass links install bin
windlass links remove bin
ls bin
echo mine > bin/ansible-vault
show windlass links install bin
ls bin
windlass man pages/man1
ls pages/man1 | grep -e '^windlass.1$' -e playbook -e 'runs-show'
grep -c __executor pages/man1/*.1 | grep -v ':0$'
