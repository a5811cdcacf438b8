"""Hostile native code in a parser, of a daemon without privilege: what it asks of the system is refused."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.bad_parser import HARM, installed
from tests.nobody import as_nobody

ROOT = Path(__file__).parents[2]
# The daemon: it has two threads and a secret. It denies some system calls to itself and its children, as the
# policy of a container or an old kernel would.
DAEMON = r"""
import ctypes, json, logging, os, struct, sys, threading
logging.basicConfig(format="%(levelname)s %(message)s")
words = json.loads(sys.argv[1])
for number, error in words["denied"]:
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | error), (0x06, 0, 0, 0x7FFF0000)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    array = ctypes.create_string_buffer(code, len(code))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, struct.pack("HP", len(steps), ctypes.addressof(array)), 0, 0) == 0
waiting = threading.Event()
threading.Thread(target=waiting.wait, daemon=True).start()
secret = ctypes.create_string_buffer(b"as it was")
os.environ["PYTHON_TEST_ADDRESS"] = str(ctypes.addressof(secret))
from ingestor.confinement import python_child
from ingestor.sandbox.pool import Isolation
from ingestor.sandbox.process import Limits
from ingestor.model import Blob
from ingestor.registry import Options
python_child._PASSED |= {name for name in os.environ if name.startswith("PYTHON")}
isolation = Isolation(Limits(processes=1))

def said(word):
    try:
        return isolation.parse("bad", Options(), Blob(word.encode(), "a")).text
    except Exception as error:
        return f"failed: {error}"

found = {word: said(word) for word in words["deeds"]}
told = {"found": found, "level": isolation.level, "secret": secret.value.decode(), "user": os.getuid()}
print(json.dumps(told))
isolation.close()
"""
UNSHARE, LANDLOCK = {"x86_64": (272, 444), "aarch64": (97, 444)}[os.uname().machine]
Place = tuple[Path, dict[str, str]]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A file that everybody may read and write, and the environment of a daemon."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        TemporaryDirectory() as plugins,
        TemporaryDirectory() as folder,
    ):
        Path(plugins).chmod(0o755)
        Path(folder).chmod(0o777)
        file = Path(folder, "file")
        file.write_text("private")
        file.chmod(0o666)
        yield file, {
            "PATH": os.environ["PATH"], "PYTHONPATH": f"{installed(Path(plugins))}:{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1", "PYTHON_TEST_FILE": str(file),
            "PYTHON_TEST_PORT": str(server.getsockname()[1]), "API_TOKEN": "a secret",
        }  # fmt: skip


def run(place: Place, command: list[str], deeds: list[str], *denied: tuple[int, int]) -> dict[str, Any]:
    """What became of each deed; ``denied``: numbers of system calls, and the error that they give."""
    file, environment = place
    words = json.dumps({"deeds": deeds, "denied": denied})
    done = subprocess.run(
        [*command, sys.executable, "-c", DAEMON, words],
        env=environment, cwd="/", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert file.read_text() == "private"
    return {**json.loads(done.stdout), "log": done.stderr}


def not_refused(told: dict[str, Any]) -> dict[str, str]:
    return {deed: said for deed, said in told["found"].items() if not said.startswith("refused")}


@pytest.mark.parametrize("user", ["nobody", "as we are"])
def test_confined_parser_can_do_no_harm(place: Place, user: str) -> None:
    """The daemon has two threads, as any has: its parsers are confined all the same."""
    command = as_nobody() if user == "nobody" else []
    told = run(place, command, [*HARM, "threads"])
    assert told["found"].pop("threads") == "xxx"
    assert not_refused(told) == {}
    assert told["secret"] == "as it was"
    assert told["user"] != 0 or user != "nobody"
    probe = subprocess.run([*command, "unshare", "--user", "--net", "true"], check=False)
    assert told["level"].startswith("namespaces, landlock, seccomp") == (probe.returncode == 0)


def test_missing_layer_leaves_the_others_and_is_logged_once(place: Place) -> None:
    """A second process that lacks the layer logs nothing. Two layers are enough."""
    told = run(place, as_nobody(), list(HARM), (UNSHARE, 1))
    assert (not_refused(told), told["log"]) == ({}, "")
    assert told["level"] == "landlock, seccomp; without namespaces (Operation not permitted)"
    told = run(place, as_nobody(), [*HARM, "exit", "threads"], (UNSHARE, 1), (LANDLOCK, 38))
    assert told["found"].pop("threads") == "xxx"
    assert told["found"].pop("exit").startswith("failed")
    assert not_refused(told).keys() == {"spy", "list"}
    assert "landlock (Function not implemented)" in told["level"]
    assert told["log"] == f"WARNING isolation of the processes that parse: {told['level']}\n"
