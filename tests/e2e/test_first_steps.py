"""README and tutorial as a new user follows them: every code block, in order, in an empty folder."""

import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    shutil.copytree(ROOT / "documents", tmp_path / "documents")
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
@pytest.mark.parametrize("page", ["README.md", "docs/first-collection.md"])
def test_every_block_runs_as_pasted_and_prints_what_the_page_promises(page: str, reader: Reader) -> None:
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
        time.sleep(0.5)
        if "ingestor query" in code:
            reader.paste(language, code)
