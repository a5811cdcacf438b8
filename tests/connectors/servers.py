"""Programs that serve, started by tests on this machine's own address and a free port, and ended with them.

Where a program is not installed, the test that asks for it is skipped.
"""

import grp
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.serving import free_port

HOST = "127.0.0.1"
PASSWORD = "s3cret-of-ada"
_CACHE = Path(__file__).parents[2] / ".cache"
_PLACES = (  # where Debian puts what is in nobody's path, and we what npm brings
    *("usr/sbin", "usr/lib/postgresql/*/bin"),
    f"{_CACHE}/azurite/node_modules/.bin"[1:],
)

_SFTP = "/usr/lib/openssh/sftp-server"


def program(name: str) -> str:
    places = [str(path) for place in _PLACES for path in Path("/").glob(place)]
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *places]))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@dataclass
class Running:
    """A server that a test may kill, and start again at the same port."""

    command: list[str]
    folder: Path
    port: int
    ready: Callable[[], bool]
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "said").open("ab") as said:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=self.folder,
                env={**os.environ, **self.environment}, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + 60
        while not self.ready():
            said_so_far = (self.folder / "said").read_text(errors="replace")[-2000:]
            assert self.process.poll() is None, f"{self.command[0]} ended: {said_so_far}"
            assert time.monotonic() < until, f"{self.command[0]} does not start: {said_so_far}"
            time.sleep(0.05)

    def kill(self) -> None:
        """With all that it started."""
        if self.process is not None:
            for pid in (self.process.pid, *_below(self.process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


def _below(pid: int) -> list[int]:
    """The processes that a process started, and they."""
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*children, *(below for child in children for below in _below(child))]


def as_somebody(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Give ``folder`` to a user without rights. Return the names, and how a command as that user begins."""
    root = os.getuid() == 0
    user = pwd.getpwnam("nobody") if root else pwd.getpwuid(os.getuid())
    os.chown(folder, user.pw_uid, user.pw_gid)
    ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    names = {"user": user.pw_name, "group": grp.getgrgid(user.pw_gid).gr_name}
    return names, [program("setpriv"), *ids] if root else []


def answers(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def running(
    command: list[str], folder: Path, port: int, ready: Callable[[], bool] | None = None, **environment: str
) -> Iterator[Running]:
    server = Running(command, folder, port, ready or (lambda: answers(port)), environment)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextmanager
def sftp_server(folder: Path) -> Iterator[tuple[Running, dict[str, object]]]:
    """What its clients are to be told; it lets in the user of this process, by a key."""
    sshd = program("sshd")
    keygen = program("ssh-keygen")
    folder.mkdir(parents=True)
    for name in ("host_key", "user_key"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "authorized").write_text((folder / "user_key.pub").read_text())
    port = free_port()
    settings = {
        "Port": port, "ListenAddress": HOST, "HostKey": folder / "host_key", "PidFile": folder / "pid",
        "AuthorizedKeysFile": folder / "authorized", "PasswordAuthentication": "no", "UsePAM": "no",
        "StrictModes": "no", "PermitRootLogin": "yes",
        "Subsystem": f"sftp {_SFTP} -e -l INFO 2>> {folder}/sftp.log",
    }  # fmt: skip
    (folder / "sftp.log").touch()
    (folder / "config").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    Path("/run/sshd").mkdir(exist_ok=True)  # where it gives up its rights
    user = pwd.getpwuid(os.getuid()).pw_name
    told = {**at_port(folder, port), "username": user}
    with running([sshd, "-D", "-e", "-f", str(folder / "config")], folder, port) as server:
        yield server, {**told, "key_filename": str(folder / "user_key"), "look_for_keys": False}


def at_port(folder: Path, port: int) -> dict[str, object]:
    """What clients are to be told of an SFTP server that they reach there."""
    host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    known = folder / f"known_{port}"
    known.write_text(f"[{HOST}]:{port} {host_key}\n")
    return {"port": port, "known_hosts": str(known)}


@contextmanager
def smb_server(folder: Path, share: Path) -> Iterator[tuple[Running, dict[str, object]]]:
    """What its clients are to be told; ``share`` is the share named docs."""
    smbd, smbpasswd = program("smbd"), program("smbpasswd")
    if os.getuid() != 0:
        pytest.skip("smbd wants to be root")
    for name in ("private", "lock", "state", "cache", "pids", "rpc"):
        (folder / name).mkdir(parents=True)
    port = free_port()
    settings = {
        "server role": "standalone server", "smb ports": port, "interfaces": HOST, "disable netbios": "yes",
        "bind interfaces only": "no", "private dir": folder / "private", "lock directory": folder / "lock",
        "state directory": folder / "state", "cache directory": folder / "cache",
        "pid directory": folder / "pids", "ncalrpc dir": folder / "rpc", "load printers": "no",
        "disable spoolss": "yes", "log file": folder / "log", "log level": 2,
        "passdb backend": f"tdbsam:{folder}/users",
    }  # fmt: skip
    shared = {"path": share, "read only": "yes", "follow symlinks": "no"}
    lines = ["[global]", *_lines(settings), "[docs]", *_lines(shared)]
    (folder / "config").write_text("\n".join(lines) + "\n")
    user = pwd.getpwuid(os.getuid()).pw_name
    add = [smbpasswd, "-c", str(folder / "config"), "-s", "-a", user]
    subprocess.run(add, input=f"{PASSWORD}\n{PASSWORD}\n", text=True, check=True, capture_output=True)
    command = [smbd, "--foreground", "--no-process-group", "--configfile", str(folder / "config")]
    with running(command, folder, port) as server:
        yield server, {"port": port, "username": user}


def smb_let_in(folder: Path, yes: bool) -> None:
    user = pwd.getpwuid(os.getuid()).pw_name
    command = [program("smbpasswd"), "-c", str(folder / "config"), "-e" if yes else "-d", user]
    subprocess.run(command, check=True, capture_output=True)


def _lines(settings: Mapping[str, object]) -> list[str]:
    return [f"{key} = {value}" for key, value in settings.items()]


@contextmanager
def azure_server(folder: Path) -> Iterator[Running]:
    port = free_port()
    folder.mkdir()
    options = {"blobHost": HOST, "blobPort": port, "location": folder}
    given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [program("azurite-blob"), "--silent", "--skipApiVersionCheck", "--disableTelemetry", *given]
    with running(command, folder, port) as server:
        yield server


@contextmanager
def google_server(folder: Path) -> Iterator[Running]:
    port = free_port()
    folder.mkdir()
    emulator = Path(sys.executable).with_name("gcp-storage-emulator")
    command = [str(emulator), "start", "--host", HOST, "--port", str(port), "--in-memory"]
    with running(command, folder, port) as server:
        yield server


@contextmanager
def postgres_server() -> Iterator[Running]:
    """Its user ada has all rights, and PASSWORD. It refuses to be root, so it is somebody else, in a folder
    of its own: pytest's are closed to others."""
    initdb, postgres = program("initdb"), program("postgres")
    with TemporaryDirectory(prefix="postgres-") as name:
        folder = Path(name)
        _, as_whom = as_somebody(folder)
        (folder / "password").write_text(PASSWORD)
        data = folder / "data"
        make = ["-D", str(data), "-U", "ada", "--pwfile", str(folder / "password"), "-A", "scram-sha-256"]
        made = subprocess.run([*as_whom, initdb, *make, "-N", "-E", "UTF8"], cwd=folder, capture_output=True)
        assert made.returncode == 0, made.stderr.decode()
        port = free_port()
        settings = {
            "listen_addresses": HOST, "port": port, "unix_socket_directories": folder, "fsync": "off",
            "log_statement": "all",
        }  # fmt: skip
        given = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]

        def ready() -> bool:
            pid = data / "postmaster.pid"
            return pid.exists() and "ready" in pid.read_text().splitlines()[-1] and answers(port)

        with running([*as_whom, postgres, "-D", str(data), *given], folder, port, ready) as server:
            yield server
