"""Commands before they read the config, their imports, and the names by which they mention themselves."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from ingestor.cli.usage import INTERRUPTED, command, log_level, quote
from tests.config.written import SOURCE
from tests.waiting import wait

SHOWS = """
import ctypes, sys
from pathlib import Path
from ingestor.cli import usage
getattr(usage, sys.argv[2])(Path(sys.argv[1]))
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
@pytest.mark.parametrize("reads", ["open_to_read", "open_to_write"])
def test_environment_of_commands_is_hidden_from_other_processes(tmp_path: Path, reads: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"state: {tmp_path}/state\n{SOURCE}")
    done = subprocess.run(
        [sys.executable, "-c", SHOWS, config, reads], capture_output=True, text=True, check=False
    )
    assert done.stdout == "0\n", done.stderr


@pytest.mark.parametrize(
    ("configured", "verbose", "quiet", "level"),
    [
        ("info", False, False, "info"),
        ("info", True, False, "debug"),
        ("error", True, False, "debug"),
        ("debug", False, True, "warning"),
        ("error", False, True, "error"),
    ],
)
def test_log_level_verbose_and_quiet_change_the_config_both_ways(
    configured: str, verbose: bool, quiet: bool, level: str
) -> None:
    assert log_level(configured, verbose, quiet) == level


def test_log_level_verbose_with_quiet_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        log_level("info", True, True)
    assert "--verbose and --quiet exclude each other" in capsys.readouterr().err


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with a program in a virtual environment there, and nothing on the PATH."""
    for script in (".venv/bin/ingestor", "else where/ingestor"):
        path = tmp_path / script
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    return tmp_path


@pytest.mark.parametrize(
    ("called", "within", "on_path", "said"),
    [
        (".venv/bin/ingestor", ".", "/nowhere", ".venv/bin/ingestor sync"),
        ("{place}/.venv/bin/ingestor", ".", "/nowhere", ".venv/bin/ingestor sync"),
        ("{place}/.venv/bin/ingestor", "work", "/nowhere", "{place}/.venv/bin/ingestor sync"),
        ("{place}/.venv/bin/ingestor", "work", "{place}/.venv/bin", "ingestor sync"),
        ("{place}/.venv/bin/ingestor", ".", "{place}/else where", ".venv/bin/ingestor sync"),
        ("{place}/else where/ingestor", ".", "/nowhere", "'else where/ingestor' sync"),
        ("ingestor", "work", "/nowhere", "ingestor sync"),
    ],
)
def test_command_names_the_called_program(
    place: Path, monkeypatch: pytest.MonkeyPatch, called: str, within: str, on_path: str, said: str
) -> None:
    monkeypatch.chdir(within)
    monkeypatch.setenv("PATH", on_path.format(place=place))
    monkeypatch.setattr(sys, "argv", [called.format(place=place)])
    assert command("sync") == said.format(place=place)


def test_command_with_other_config_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["ingestor"])
    assert command("plan", Path("my config.yaml")) == "ingestor plan --config 'my config.yaml'"
    assert command("plan", Path("config.yaml")) == "ingestor plan"


@pytest.mark.parametrize("text", ["How long?", "it's", 'say "hi"', "$HOME", "`ls`", "a\\b", "wow!", ""])
def test_quoted_text_survives_a_shell(text: str) -> None:
    said = subprocess.run(
        ["sh", "-c", f"printf %s {quote(text)}"], capture_output=True, text=True, check=True
    )
    assert (said.stdout, shlex.split(quote(text))) == (text, [text])


LOOP = {"ingestor.app.wiring", "ingestor.engine.loop", "ingestor.nodes.fleet"}
_SHOW = "import {}, sys; print(*sys.modules)"


def imported_by(module: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _SHOW.format(module)], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "costly"),
    [
        ("ingestor.cli.main", {"numpy", "pydantic", "yaml", "rich", "httpx", "ingestor.ports"}),
        (
            "ingestor.queries.reading",
            {"httpx", "rich", "charset_normalizer", "numpy", "ingestor.lexical.terms", *LOOP},
        ),
        ("ingestor.queries.sources", {"httpx", "numpy", "ingestor.app.parts"}),
        ("ingestor.queries.inventory", {"httpx", "numpy", "ingestor.app.parts"}),
        ("ingestor.queries.plan", {"httpx", "rich", "openvino", "chromadb", *LOOP}),
        ("ingestor.app.parts", {"httpx", "openvino", "tokenizers", *LOOP}),
        (
            "ingestor.queries.status",
            {"httpx", "rich", "charset_normalizer", "numpy", "ingestor.lexical.terms", *LOOP},
        ),
        ("ingestor.chroma.backend", {"chromadb", "httpx", "numpy"}),
        ("ingestor.model, ingestor.ports", {"numpy"}),
        ("ingestor.app.daemon", {"chromadb", "openvino", "tiktoken", "tokenizers", "torch"}),
    ],
)
def test_costly_packages_are_imported_where_they_are_used(module: str, costly: set[str]) -> None:
    assert not costly & imported_by(module)


def test_interruption_of_the_imports_prints_nothing() -> None:
    interrupted = """
import sys
class Interrupting:
    def find_spec(self, name, *more):
        if name == "ingestor.cli.trial":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
import ingestor.cli.main
"""
    done = subprocess.run([sys.executable, "-c", interrupted], capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (130, b"")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plan", "--all", "--sample", "5"], "--all and --sample exclude each other: choose one"),
        (["evaluate", "--accept"], "--accept goes with --check: ingestor evaluate --check FILE --accept"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "config.yaml").write_text(f"state: {tmp_path}/state\n{SOURCE}")
    command = [sys.executable, "-c", "from ingestor.cli.main import main; main()", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"{message}\n")


@contextmanager
def ended(folder: Path, word: str, number: signal.Signals) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a command that runs in the folder; then send it a signal, and wait for its end."""
    program = Path(sys.executable).with_name("ingestor")
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    (folder / "tmp").mkdir()
    (folder / "slow.py").write_text("import time\ndef pages():\n    time.sleep(600)\n    yield\n")
    source = "{name: docs, kind: python, call: slow:pages, folder: ., collection: docs}"
    (folder / "config.yaml").write_text(f"sources: [{source}]\n")
    with subprocess.Popen(
        [program, word], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        try:
            yield running
            running.send_signal(number)
            running.wait(60)
        finally:
            running.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_plan_ended_by_a_signal_deletes_its_copy_of_the_journal(
    tmp_path: Path, number: signal.Signals
) -> None:
    with ended(tmp_path, "plan", number) as plan:
        wait(lambda: any((tmp_path / "tmp").glob("*/journal.sqlite3")) or plan.poll() is not None)
    assert plan.returncode == INTERRUPTED
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed")
def test_signal_ends_mcp_while_its_input_is_open(tmp_path: Path) -> None:
    client = {"name": "test", "version": "1"}
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    with ended(tmp_path, "mcp", signal.SIGINT) as mcp:
        assert mcp.stdin is not None and mcp.stdout is not None
        mcp.stdin.write(json.dumps(call).encode() + b"\n")
        mcp.stdin.flush()
        assert b"serverInfo" in mcp.stdout.readline()
    assert mcp.returncode == -signal.SIGINT
