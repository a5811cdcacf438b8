"""What one document does to the process that reads it costs that document alone."""

import errno
import io
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ingestor.confinement import python_child
from ingestor.model import Blob, Block, Document
from ingestor.ports import BadDocument, Transient
from ingestor.registry import Options
from ingestor.sandbox.pool import Defect, Isolated, Isolation
from ingestor.sandbox.process import Limits
from tests.waiting import wait

pytestmark = pytest.mark.usefixtures("bad_parser")

Parse = Callable[..., str]


@pytest.fixture(scope="module")
def isolation() -> Iterator[Isolation]:
    """One process: what one test leaves behind meets the next one."""
    found = Isolation(Limits(memory=600_000_000, seconds=1, processes=1))
    yield found
    found.close()


@pytest.fixture
def parse(isolation: Isolation) -> Parse:
    def run(word: str, name: str = "a.bad") -> str:
        return isolation.parse("bad", Options(), Blob(word.encode(), name)).text

    return run


def test_document_is_returned_complete(isolation: Isolation) -> None:
    text = "words, 名前, 😀 and \0"
    found = Isolated("bad", Options(), isolation).parse(Blob(text.encode(), "n\udcff.bad"))
    assert found == Document(
        text, (Block("paragraph", 0, len(text), page=3),), extra=(("name", "n\udcff.bad"),)
    )


@pytest.mark.slow
def test_process_is_reused_until_it_has_grown(parse: Parse) -> None:
    ours = b"x" * 300_000_000  # what we hold is not what the process holds
    with pytest.raises(BadDocument):
        parse("segfault")
    first = parse("pid")
    del ours
    assert [parse("pid") for _ in range(3)] == [first] * 3
    assert parse("leak") == first
    parse("leak")
    assert parse("pid") != first


FAILURES = {
    "hang": r"took more than 1 s; raise parsing\.seconds, or exclude it",
    "eat": r"needed more than 0\.6 GB of memory; raise parsing\.memory, or exclude it",
    "segfault": r"the parser crashed \(SIGSEGV\); exclude it",
    "abort": r"crashed \(SIGABRT\), most likely because it needed more than 0.6 GB of memory; raise pars",
    "exit": r"the parser crashed \(exit status 3\); exclude it",
    "recurse": r"is nested too deeply",
    "refuse": r"no good",
    "boast": r"the parser's answer is too large \(536,870,912 bytes",
}


@pytest.mark.parametrize("deed", FAILURES)
def test_failing_process_fails_one_document_with_its_reason(parse: Parse, deed: str) -> None:
    with pytest.raises(BadDocument, match=f"^{FAILURES[deed]}"):
        parse(deed)
    assert parse("the next one") == "the next one"


def test_defect_is_not_blamed_on_the_document(parse: Parse) -> None:
    with pytest.raises(Defect, match=r"^ValueError: a defect") as defect:
        parse("fail")
    assert "in fail" in "".join(defect.value.__notes__)
    with pytest.raises(Defect, match="short of memory"):
        parse("kill")


def test_process_reaches_no_network_writes_no_files_and_sees_no_secrets(
    parse: Parse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secrets = ("API_TOKEN", "LANGCHAIN_API_KEY", "HOMEBREW_TOKEN", "PATH_KEY", "PYTHON_TOKEN", "LD_KEY")
    with socket.create_server(("127.0.0.1", 0)) as server, (tmp_path / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        passed = python_child._PASSED | {"PYTHON_TEST_PORT", "PYTHON_TEST_FILE"}
        monkeypatch.setattr(python_child, "_PASSED", passed)
        monkeypatch.setenv("PYTHON_TEST_PORT", str(server.getsockname()[1]))
        monkeypatch.setenv("PYTHON_TEST_FILE", str(tmp_path / "big"))
        for secret in secrets:
            monkeypatch.setenv(secret, "secret")
        with pytest.raises(BadDocument):
            parse("segfault")  # so that the next process sees this environment
        assert parse("network").startswith("refused")
        assert parse("write").startswith("refused")
        seen = parse("environment")
        assert [secret for secret in secrets if secret in seen] == []
        assert "PYTHONPATH" in seen
        assert "lock" not in parse("descriptors")
    assert parse("chatter") == "quiet", "noise does no harm"
    assert os.getsid(int(parse("pid"))) != os.getsid(0), "an interrupt at the terminal does not reach it"
    parse("leak")
    assert parse("frail") == "well", "a document is not affected by earlier ones"


def test_fallback_of_the_network_wall_refuses_sockets() -> None:
    script = (
        "import socket, sys; from ingestor.confinement.walls import _refuse_network\n"
        "sys.addaudithook(_refuse_network)\n"
        "try: socket.create_connection(('127.0.0.1', 9))\n"
        "except PermissionError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "this process may not use the network\n"


def test_archive_whose_listing_does_no_good_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.sandbox.pool._MOST_BATCHES", 3)
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    before = children.read_text()
    isolation = Isolation(Limits(processes=1))
    assert children.read_text() == before, "processes start when they are needed"
    many, long = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(4000):
            archive.writestr(f"{number}.md", "")
    with tarfile.open(fileobj=long, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("n" * 500_000))
    with pytest.raises(BadDocument, match="does not end"):
        isolation.unpack(Blob(many.getvalue(), "a.zip"), True)
    with pytest.raises(BadDocument, match="holds a file whose name is too long"):
        isolation.unpack(Blob(long.getvalue(), "a.tar"), True)
    isolation.close()


PARENT = """
import os, sys
from ingestor.sandbox.pool import Isolation
from ingestor.sandbox.process import Limits
from ingestor.model import Blob
from ingestor.registry import Options, find, kinds
isolation = Isolation(Limits(seconds=1, processes=2))
print(isolation.parse("bad", Options(), Blob(b"pid", "a")).text, flush=True)
isolation.parse("bad", Options(), Blob(sys.argv[1].encode(), "a"))
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "doing", ["nothing", *(pytest.param(x, marks=pytest.mark.slow) for x in ("hang", "sleep"))]
)
def test_processes_end_with_a_parent_that_is_killed(doing: str) -> None:
    command = [sys.executable, "-c", PARENT, doing]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        process = Path("/proc", parent.stdout.readline().strip(), "stat")
        parent.kill()
    wait(lambda: not process.exists() or ") Z " in process.read_text())


def _fails_to_start(message: str) -> None:
    isolation = Isolation(Limits(processes=1))
    with pytest.raises(Transient, match=message):
        isolation.parse("bad", Options(), Blob(b"", "a"))
    isolation.close()


def test_process_that_does_not_start_is_retried_and_named_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no python here >&2\nexit 5\n")
    broken.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(broken))
        _fails_to_start(r"does not start: .*exit status 5: no python here")
    (tmp_path / "pydantic.py").write_text("raise ImportError('this pydantic is broken')")
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        _fails_to_start(r"does not start: .*this pydantic is broken")

    def nowhere() -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "TemporaryFile", nowhere)
    _fails_to_start(r"can't be started: No usable .*make room .* or set TMPDIR")
