"""Other users of the machine find no way past the guard."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ingestor.chroma.server import ChromaServer
from tests.chroma.guarding import ROOT
from tests.nobody import as_nobody

PEER = r"""
import socket, sys
for port in map(int, sys.argv[1:]):
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as peer:
            peer.sendall(b"GET /api/v2/heartbeat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            print(peer.recv(12).decode()[-3:])
    except OSError as error:
        print(type(error).__name__)
"""


# A server, as a user without privilege or under a policy that denies system calls: (number, error) each.
DAEMON = r"""
import ctypes, json, struct, sys, urllib.request
from pathlib import Path
from ingestor.chroma.processes import free_port
from ingestor.chroma.server import ChromaServer
folder, denied = Path(sys.argv[1]), json.loads(sys.argv[2])
for number, error in denied:
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | error), (0x06, 0, 0, 0x7FFF0000)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    array = ctypes.create_string_buffer(code, len(code))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, struct.pack("HP", len(steps), ctypes.addressof(array)), 0, 0) == 0
with ChromaServer(folder / "db", "127.0.0.1", free_port("127.0.0.1"), folder / "log") as running:
    assert running.poll() is None
    with urllib.request.urlopen(f"http://127.0.0.1:{running.port}/api/v2/heartbeat") as answer:
        told = {"level": running.level, "status": answer.status, "port": running.port, "pid": running.pid}
    print(json.dumps(told), flush=True)
    sys.stdin.read()
"""


UNSHARE = {"x86_64": 272, "aarch64": 97}[os.uname().machine]


def listening(table: str) -> set[int]:
    rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}


def asked_by_another_user(*ports: int) -> list[str]:
    command = as_nobody(sys.executable, "-c", PEER, *map(str, ports))
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.split()


def has_namespaces(*command: str) -> bool:
    done = subprocess.run([*command, "unshare", "--user", "--net", "true"], check=False)
    return done.returncode == 0


def test_another_user_finds_no_way_past_the_guard(guarded: ChromaServer) -> None:
    if not has_namespaces():
        pytest.skip("no namespaces here")
    assert guarded.level == "host and origin checks, token, network namespace"
    (inner,) = listening(f"/proc/{guarded.pid}/net/tcp")
    before = listening("/proc/net/tcp")
    assert guarded.port in before
    assert asked_by_another_user(guarded.port, inner) == ["401", "ConnectionRefusedError"]


def run_daemon(folder: Path, command: list[str], *denied: tuple[int, int]) -> dict[str, Any]:
    """What a server tells that is started so, and what is found while it runs."""
    folder.chmod(0o777)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        [*command, sys.executable, "-c", DAEMON, str(folder), json.dumps(denied)],
        env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as daemon:  # fmt: skip
        assert daemon.stdin and daemon.stdout
        told: dict[str, Any] = json.loads(daemon.stdout.readline())
        told["inner"] = listening(f"/proc/{told['pid']}/net/tcp") - listening("/proc/net/tcp")
        database = (folder / "db" / "chroma.sqlite3").stat()
        told["owner"], told["mode"] = database.st_uid, database.st_mode & 0o777
        told["answers"] = asked_by_another_user(told["port"], *told["inner"])
        daemon.stdin.close()
    assert daemon.returncode == 0
    return told


@pytest.fixture
def anywhere(tmp_path: Path) -> Iterator[Path]:
    """A folder that everybody can reach."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def test_user_without_privilege_has_a_namespace_too(anywhere: Path) -> None:
    if not has_namespaces(*as_nobody()):
        pytest.skip("no namespaces here")
    told = run_daemon(anywhere, as_nobody())
    assert told["level"] == "host and origin checks, this user and root only, network namespace"
    assert (told["status"], told["answers"]) == (200, ["200", "ConnectionRefusedError"])
    assert told["owner"] != 0
    assert told["mode"] == 0o600


def test_guard_without_namespaces_applies_the_remaining_walls(anywhere: Path) -> None:
    """The level says by which port others get past it."""
    told = run_daemon(anywhere, as_nobody(), (UNSHARE, 1))
    assert told["status"] == 200
    assert "network namespace (Operation not permitted; past the guard, other users" in told["level"]
    port = int(told["level"].rpartition("port ")[2].split(")")[0])
    assert asked_by_another_user(port) == ["ConnectionRefusedError"]  # for it has ended


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up")
def test_namespace_without_loopback_is_left_alone(anywhere: Path) -> None:
    """As where a policy lets a process leave its network, and then forbids it to set up another one."""
    drop = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]
    told = run_daemon(anywhere, drop)
    assert told["status"] == 200
    assert "loopback can't be set up: Operation not permitted" in told["level"]
