"""Cases of the comparison: playbooks, the same work for pyinfra, and inventories."""

from dataclasses import dataclass
from pathlib import Path

from lab import DELAYED, PORT

SSH = "-F /dev/null -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"


@dataclass
class Case:
    name: str
    #: Playbook; None lists the inventory.
    playbook: str | None
    inventory: str
    forks: int = 5
    #: Runs again on the result of the first run.
    twice: bool = False
    #: Compares the files on the hosts with those from Ansible.
    verify: bool = False
    #: pyinfra's deploy script or operation; None if pyinfra has no equivalent.
    pyinfra: list[str] | None = None


PYINFRA_FACTS = ["fact", "server.LinuxDistribution", "server.Kernel", "server.Hostname", "server.Users", "hardware.Cpus",
                 "hardware.Memory", "hardware.BlockDevices", "hardware.NetworkDevices"]

CASES = [
    Case("100 mixed tasks, 1 host", "mixed100", "h1", twice=True, verify=True, pyinfra=["mixed100.py"]),
    Case("100 mixed tasks, 10 hosts", "mixed100", "h10", forks=20, twice=True, verify=True, pyinfra=["mixed100.py"]),
    Case("ping, 50 hosts", "ping", "h50", forks=50, pyinfra=["exec", "--", "true"]),
    Case("facts, 50 hosts", "facts", "h50", forks=50, pyinfra=PYINFRA_FACTS),
    Case("loop of 1,000 files, 1 host", "loop", "h1", pyinfra=["loop.py"]),
    Case("10 MB copy, 10 hosts", "copy", "h10", forks=20, twice=True, pyinfra=["copy.py"]),
    Case("20 mixed tasks at 50 ms, 1 host", "mixed20", "delay50", twice=True, verify=True, pyinfra=["mixed20.py"]),
    Case("loop of 100 files at 50 ms, 1 host", "loop100", "delay50", pyinfra=["loop100.py"]),
    Case("debug, 1,000 hosts, local", "debug", "big", forks=50),
    Case("--list of 10,000 hosts", None, "big"),
]


def write(root: Path, hosts: Path):
    """Writes all cases to `root`; `hosts` is the lab's folder."""

    def file(name, text):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    targets = f"{hosts}/targets"
    common = (f"\n[all:vars]\nansible_user=root\nansible_ssh_private_key_file={hosts}/id\nansible_ssh_common_args='{SSH}'\n"
              f"ansible_python_interpreter=/usr/bin/python3\ntargets={targets}\n")
    file("pyinfra/group_data/all.py", f'ssh_user = "root"\nssh_key = "{hosts}/id"\nssh_strict_host_key_checking = "off"\n'
         f'ssh_known_hosts_file = "{hosts}/known_hosts"\ntargets = "{targets}"\n')
    inventories = {f"h{count}": [(f"h{i}", f"127.0.1.{i}", PORT) for i in range(1, count + 1)] for count in (1, 10, 50)}
    inventories |= {f"delay{delay}": [("far", "127.0.1.1", port)] for delay, port in DELAYED.items()}
    for name, entries in inventories.items():
        lines = [f"{host} ansible_host={address} ansible_port={port}\n" for host, address, port in entries]
        file(f"inventory/{name}", "[lab]\n" + "".join(lines) + common)
        data = [(host, {"ssh_hostname": address, "ssh_port": port}) for host, address, port in entries]
        file(f"pyinfra/{name}.py", f"lab = {data!r}\n")
    big(file)
    playbooks(file)
    pyinfra(file)
    (root / "playbooks/files/blob").write_bytes(bytes(range(256)) * (10 << 20 >> 8))


def big(file):
    """10,000 hosts in 100 groups in 10 regions, with variables everywhere."""
    text = ""
    for group in range(100):
        text += f"[g{group:02}]\n" + "".join(f"n{group:02}{i:02} ansible_host=10.{group}.{i}.1 rack=r{i % 20}\n" for i in range(100))
    for region in range(10):
        text += f"[region{region}:children]\n" + "".join(f"g{region}{i}\n" for i in range(10))
    file("inventory/big/hosts", text)
    file("inventory/big/group_vars/all.yml", "".join(f'all_{i}: "value {i} of {{{{ inventory_hostname }}}}"\n' for i in range(20)))
    for group in range(100):
        file(f"inventory/big/group_vars/g{group:02}.yml",
             f"cluster: c{group}\n" + "".join(f'group_{i}: "{{{{ cluster }}}}-{i}"\n' for i in range(10)))


def playbooks(file):
    def play(name, tasks, hosts="all", **keywords):
        lines = "".join(f"  {key}: {value}\n" for key, value in keywords.items())
        file(f"playbooks/{name}.yml", f"- hosts: {hosts}\n  gather_facts: {name == 'facts'}\n{lines}  tasks:{tasks}\n")

    folder = "{{ targets }}/{{ inventory_hostname }}"
    play("ping", "\n    - ansible.builtin.ping:")
    play("facts", " []")
    play("debug", '\n    - ansible.builtin.debug:\n        msg: "{{ inventory_hostname }} {{ cluster }} {{ group_3 }} {{ all_2 }}"',
         hosts="region1", connection="local")
    directory = f'\n    - ansible.builtin.file: {{path: "{folder}", state: directory, mode: "0755"}}'
    play("copy", directory + f'\n    - ansible.builtin.copy: {{src: blob, dest: "{folder}/blob", mode: "0644"}}')
    for name, count in (("loop", 1000), ("loop100", 100)):
        play(name, directory + f"""
    - ansible.builtin.file:
        path: "{folder}/file{{{{ item }}}}"
        state: touch
        mode: "0644"
        access_time: preserve
        modification_time: preserve
      loop: "{{{{ range({count}) | list }}}}\"""")
    for name, blocks in (("mixed20", 2), ("mixed100", 10)):
        play(name, "".join(mixed(f"{folder}/app{block}", block) for block in range(blocks)), vars="{workers: 4, level: info}")
    file("playbooks/files/small", "A small file.\n" * 20)
    file("playbooks/templates/app.conf", "name = app{{ app }}\nhost = {{ inventory_hostname }}\nworkers = {{ workers }}\n"
         "{% for port in range(8000, 8008) %}\nlisten = {{ port }}\n{% endfor %}\n")
    file("playbooks/templates/level.conf", "level = {{ level | upper }}\napp = {{ app }}\n")


def mixed(folder, block):
    """Ten typical tasks of a playbook."""
    return f"""
    - ansible.builtin.file: {{path: "{folder}", state: directory, mode: "0755"}}
    - ansible.builtin.copy: {{content: "app {block} on {{{{ inventory_hostname }}}}\\n", dest: "{folder}/inline", mode: "0644"}}
    - ansible.builtin.copy: {{src: small, dest: "{folder}/small", mode: "0644"}}
    - ansible.builtin.template: {{src: app.conf, dest: "{folder}/app.conf", mode: "0640"}}
      vars: {{app: {block}}}
    - ansible.builtin.template: {{src: level.conf, dest: "{folder}/level.conf", mode: "0644"}}
      vars: {{app: {block}}}
    - ansible.builtin.lineinfile: {{path: "{folder}/settings", line: "a=1", create: true, mode: "0644"}}
    - ansible.builtin.lineinfile: {{path: "{folder}/settings", regexp: "^b=", line: "b={block}"}}
    - ansible.builtin.file: {{src: "{folder}/app.conf", path: "{folder}/current", state: link}}
    - ansible.builtin.command: "true"
      changed_when: false
    - ansible.builtin.stat: {{path: "{folder}/app.conf"}}
      register: stat{block}"""


def pyinfra(file):
    head = ("import io\nfrom pyinfra import host\nfrom pyinfra.operations import files, server\nfrom pyinfra.facts.files import File\n"
            'root = f"{host.data.targets}/{host.name}"\nplaybooks = "{{}}"\n').replace("{{}}", "../playbooks")
    file("pyinfra/copy.py", head + 'files.directory(path=root, mode="755")\n'
         'files.put(src=f"{playbooks}/files/blob", dest=f"{root}/blob", mode="644")\n')
    for name, count in (("loop", 1000), ("loop100", 100)):
        file(f"pyinfra/{name}.py", head + 'files.directory(path=root, mode="755")\n'
             f'for i in range({count}):\n    files.file(path=f"{{root}}/file{{i}}", mode="644")\n')
    for name, blocks in (("mixed20", 2), ("mixed100", 10)):
        file(f"pyinfra/{name}.py", head + f"for app in range({blocks}):\n" + """    folder = f"{root}/app{app}"
    values = {"app": app, "inventory_hostname": host.name, "workers": 4, "level": "info"}
    files.directory(path=folder, mode="755")
    files.put(src=io.StringIO(f"app {app} on {host.name}\\n"), dest=f"{folder}/inline", mode="644")
    files.put(src=f"{playbooks}/files/small", dest=f"{folder}/small", mode="644")
    files.template(src=f"{playbooks}/templates/app.conf", dest=f"{folder}/app.conf", mode="640", **values)
    files.template(src=f"{playbooks}/templates/level.conf", dest=f"{folder}/level.conf", mode="644", **values)
    files.line(path=f"{folder}/settings", line="a=1", ensure_newline=True)
    files.line(path=f"{folder}/settings", line="^b=.*$", replace=f"b={app}")
    files.link(path=f"{folder}/current", target=f"{folder}/app.conf")
    server.shell(commands="true")
    host.get_fact(File, path=f"{folder}/app.conf")
""")
