"""Hosts for the comparison: one sshd in a network namespace, where every 127.x.y.z is a host, and slow proxies."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

NAMESPACE = "windlass-bench"
PORT = 2222
#: Port of the proxy for each round-trip time in milliseconds.
DELAYED = {50: 2250}

SSHD_CONFIG = """
Port {port}
ListenAddress 0.0.0.0
HostKey {root}/host_key
AuthorizedKeysFile {root}/id.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 200
MaxSessions 100
UseDNS no
PrintMotd no
PrintLastLog no
SetEnv HOME={root}/remote-home
PidFile none
Subsystem sftp internal-sftp
"""


class Lab:
    """The running hosts. All their files are below `root`."""

    def __init__(self, root: Path):
        self.root = root
        self.processes = []

    def __enter__(self):
        subprocess.run(["ip", "netns", "delete", NAMESPACE], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
        subprocess.run(["ip", "-n", NAMESPACE, "link", "set", "lo", "up"], check=True)
        for folder in ("home", "remote-home", "targets"):
            (self.root / folder).mkdir(parents=True)
        for name in ("host_key", "id"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.root / name], check=True)
        config = self.root / "sshd_config"
        config.write_text(SSHD_CONFIG.format(port=PORT, root=self.root))
        # sshd requires its folder in /run, so it gets its own /run instead of this machine's.
        start = f"mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -e -f {config}"
        self.start(["unshare", "--mount", "sh", "-c", start], "sshd")
        for delay, port in DELAYED.items():
            self.start([sys.executable, __file__, str(port), str(delay)], f"delay-{delay}")
        self.wait()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        subprocess.run(["ip", "netns", "delete", NAMESPACE])

    def start(self, command, name):
        log = open(self.root / f"{name}.log", "wb")
        self.processes.append(subprocess.Popen(self.inside(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def inside(self, command):
        """Wraps a command to run where the hosts are reachable."""
        return ["ip", "netns", "exec", NAMESPACE, *command]

    def wait(self):
        """Waits until sshd answers."""
        options = ["-F", "/dev/null", "-i", self.root / "id", "-p", str(PORT), "-o", "StrictHostKeyChecking=no",
                   "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        for _ in range(100):
            done = subprocess.run(self.inside(["ssh", *options, "root@127.0.1.1", "true"]), stderr=subprocess.DEVNULL)
            if done.returncode == 0:
                return
            time.sleep(0.1)
        sys.exit(f"sshd does not answer:\n{(self.root / 'sshd.log').read_text()}")

    def reset(self):
        """Removes the files of earlier runs. Files in the programs' homes stay, as for every run but the first."""
        shutil.rmtree(self.root / "targets")
        (self.root / "targets").mkdir()


async def delay(port: int, milliseconds: int):
    """A proxy to sshd that delays bytes by half a round trip."""
    half = milliseconds / 2000

    async def pipe(reader, writer):
        loop = asyncio.get_running_loop()
        queue = asyncio.Queue()

        async def drain():
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0, due - loop.time()))
                if not data:
                    return writer.close()
                writer.write(data)
                await writer.drain()

        draining = asyncio.create_task(drain())
        try:
            while data := await reader.read(1 << 18):
                queue.put_nowait((loop.time() + half, data))
        except ConnectionError:
            pass
        queue.put_nowait((loop.time() + half, b""))
        await asyncio.gather(draining, return_exceptions=True)

    async def serve(reader, writer):
        # Simulates the round trip of TCP's handshake.
        await asyncio.sleep(2 * half)
        upstream = await asyncio.open_connection("127.0.1.1", PORT)
        await asyncio.gather(pipe(reader, upstream[1]), pipe(upstream[0], writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.1.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(delay(int(sys.argv[1]), int(sys.argv[2])))
