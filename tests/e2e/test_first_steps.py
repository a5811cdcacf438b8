"""The first steps of a user: every code block of the README and the tutorials, and a daemon on a terminal."""

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.project import INGESTOR, Project, running
from tests.e2e.test_service import figure, make_served
from tests.environments import readers
from tests.waiting import wait

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE = 240  # seconds; a busy machine loads the model slowly


def normalised(text: str) -> str:
    """The words of a text, with every number as ``#``: figures differ from machine to machine."""
    return re.sub(r"\d[\d,.]*", "#", " ".join(text.split()))


class Reader:
    """A person who pastes blocks into a terminal. Ports are free ones, the only thing that differs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.printed = folder, ""
        self.log = folder / "run.log"
        self.running: list[subprocess.Popen[bytes]] = []
        with socket.socket() as first, socket.socket() as second:
            for port in (first, second):
                port.bind(("127.0.0.1", 0))
            self.ports = first.getsockname()[1], second.getsockname()[1]

    def paste(self, language: str, code: str) -> None:
        if code.startswith("ingestor run"):
            with self.log.open("wb") as log:
                program = Path(sys.executable).with_name("ingestor")
                self.running.append(
                    subprocess.Popen([program, "run"], cwd=self.folder, stdout=log, stderr=log)
                )
            return
        command = [sys.executable, "-c", code] if language == "python" else ["bash", "-ec", f"{code}\npwd"]
        done = subprocess.run(
            [part.replace("port=8000", f"port={self.ports[0]}") for part in command],
            cwd=self.folder,
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.printed = done.stdout
        if language == "sh":
            self.printed, _, last = done.stdout.rstrip("\n").rpartition("\n")
            self.folder = Path(last)
            if "ingestor init" in code:
                self._give_ports()

    def sees(self, promised: str) -> bool:
        """Whether each promised line stands in what was printed last, or in the daemon's log."""
        log = self.log.read_text() if self.log.exists() else ""
        seen = normalised(f"{self.printed}\n{log}")
        return all(normalised(line) in seen for line in promised.splitlines())

    def _give_ports(self) -> None:
        config = self.folder / "config.yaml"
        text = config.read_text().replace("port: 8000", f"port: {self.ports[0]}", 1)
        assert str(self.ports[0]) in text
        config.write_text(f"{text}\nhttp: {{port: {self.ports[1]}}}\n")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    for daemon in reader.running:
        daemon.terminate()
        daemon.wait(PATIENCE)


def steps(page: str) -> list[tuple[str, str, str]]:
    """Language, code and promised output of each block. ``make`` sets up a clone, which the test has."""
    blocks = [
        (language, code)
        for language, code in BLOCK.findall((ROOT / page).read_text("utf-8"))
        if language in ("sh", "python", "text") and not code.startswith("make")
    ]
    promises = [code if language == "text" else "" for language, code in blocks[1:]] + [""]
    return [
        (language, code, promise)
        for (language, code), promise in zip(blocks, promises, strict=True)
        if language != "text"
    ]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("page", "samples"),
    [
        ("README.md", "cooperative"),  # has the answers
        pytest.param("docs/first-collection.md", "", marks=pytest.mark.slow),
    ],
)
def test_every_block_runs_as_pasted_and_prints_what_the_page_promises(
    page: str, samples: str, reader: Reader
) -> None:
    shutil.copytree(ROOT / "documents" / samples, reader.folder / "documents" / samples)
    done = []
    for language, code, promised in steps(page):
        *before, last = _commands(code)
        for command in before:
            reader.paste(language, command)
        _until_seen(reader, language, last, promised)
        done.append(last)
    assert any(code.startswith("ingestor run") for code in done)
    assert any("get_collection" in code for code in done)


def _commands(code: str) -> list[str]:
    """The block, parted where the daemon starts: it keeps its terminal."""
    before, started, _ = code.partition("ingestor run")
    return [before, "ingestor run"] if started and before else [code]


def _until_seen(reader: Reader, language: str, code: str, promised: str) -> None:
    """Paste the code, and again for as long as the collection has not followed yet."""
    promised = promised or ("Watching for changes" if code.startswith("ingestor run") else "")
    reader.paste(language, code)
    deadline = time.monotonic() + PATIENCE
    while not reader.sees(promised):
        assert time.monotonic() < deadline, f"promised:\n{promised}\nprinted:\n{reader.printed}"
        assert all(daemon.poll() is None for daemon in reader.running), reader.log.read_text()
        time.sleep(2)
        if "ingestor query" in code:
            reader.paste(language, code)


# --- A daemon on a terminal: what its user sees there, and what closing it means ---


@dataclass
class Terminal:
    """A command that has a terminal to itself; ``saw`` is all that appeared there."""

    process: subprocess.Popen[bytes]
    master: int
    saw: str = ""

    def shows(self, text: str) -> bool:
        while True:
            try:
                self.saw += os.read(self.master, 65536).decode(errors="replace")
            except BlockingIOError:
                return text in self.saw

    def close(self) -> None:
        os.close(self.master)


def take_terminal() -> None:
    """In the child: even where whoever runs the tests ignores SIGHUP (nohup), the daemon hears it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def opened(folder: Path) -> Terminal:
    """``ingestor run`` in that folder, as the first process of a new terminal."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (30, 100))
    os.set_blocking(master, False)
    process = subprocess.Popen(
        [INGESTOR, "run"],
        cwd=folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=take_terminal,
        env={**os.environ, "TERM": "xterm-256color", "PATH": "/usr/bin:/bin"},
    )
    os.close(slave)
    return Terminal(process, master)


@pytest.mark.slow
def test_daemon_on_a_terminal_shows_commands_to_paste_reloads_and_ends_with_it(project: Project) -> None:
    (project.docs / "a.md").write_text("# When does it open?\n\nThe library opens at nine.\n")
    terminal = opened(project.folder)
    try:
        wait(lambda: terminal.shows("a.md: 1 record written") and terminal.shows("Watching for changes"))
        rows = re.split(r"\n|\r|\x1b\[2K", terminal.saw)
        assert any("━" in row for row in rows), "there was a bar"
        assert any("INFO" in row for row in rows), "there was a log line"
        assert not [row for row in rows if "━" in row and "INFO" in row], "no log crosses the bar"
        asked = re.search(r"\S*ingestor query [^\r\n\x1b]*", terminal.saw)
        assert asked is not None
        assert '"When does it open?"' in asked[0]
        plain = {**os.environ, "PATH": "/usr/bin:/bin"}
        answer = subprocess.run(
            ["sh", "-c", asked[0]], cwd=project.folder, env=plain, capture_output=True, text=True, timeout=120
        )
        assert answer.returncode == 0, answer.stderr
        assert "docs/a.md:" in answer.stdout and "The library opens at nine." in answer.stdout

        terminal.process.send_signal(signal.SIGHUP)
        wait(lambda: terminal.shows("config reloaded"))
        terminal.close()
        assert terminal.process.wait(60) == 0
    finally:
        terminal.process.kill()
        terminal.process.wait(30)
    assert not project.json("status")["running"]
    found = project.json("verify", code=None)  # a file that was young when it was listed is due again
    assert (found["checked"], found["missing"], found["stale"]) == (1, 0, 0)


# --- The examples of docs/reading.md, as they stand there, in environments without ingestor or a model ---
PAGE = (ROOT / "docs/reading.md").read_text()
PACKAGES = (
    "chromadb==1.5.9",
    "langchain-chroma==1.1.0",
    "llama-index-vector-stores-chroma==0.6.0",
    "llama-index-embeddings-text-embeddings-inference",
)
MODULES = ("chromadb@3.5.0", "@chroma-core/huggingface-server@0.1.8")
QUESTION = "All that is known about the bridge."


@pytest.fixture(scope="module")
def read_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    here = make_served(tmp_path_factory.mktemp("reading"))
    with running(here):
        settled = 'ingestor_documents{collection="docs",source="docs",state="settled"}'
        wait(lambda: figure(here, settled) == 3)
        yield here


def example(heading: str, language: str, of: Project) -> str:
    """The first block of code below a heading, with the ports and a question of the daemon here."""
    found = re.search(rf"^#+ {heading}\n.*?^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    assert found[1].count("What does an interlibrary loan cost?") == 1
    port = str(of.settings["http"]["port"])
    return (
        found[1]
        .replace("What does an interlibrary loan cost?", QUESTION)
        .replace("8000", str(of.port))
        .replace("8001", port)
    )


def run(command: list[str | Path], folder: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("heading", ["LangChain", "LlamaIndex"])
def test_stores_search_by_words_without_a_model(heading: str, read_daemon: Project, tmp_path: Path) -> None:
    client, _, _ = example("Read a collection", "python", read_daemon).partition("answer =")
    script = client + example(heading, "python", read_daemon)
    said = run([readers(*PACKAGES), "-W", "ignore", "-c", script], tmp_path)
    assert said.splitlines()[0].split()[0].endswith("bridge.txt")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm here")
def test_javascript_searches_by_words_without_a_model(read_daemon: Project, tmp_path: Path) -> None:
    run(["npm", "install", "--silent", *MODULES], tmp_path)
    script = example("JavaScript", "js", read_daemon) + "console.log(found.documents[0][0]);\n"
    (tmp_path / "ask.mjs").write_text(script)
    assert run(["node", "ask.mjs"], tmp_path).strip() == QUESTION
