"""Elapsed and processor time of commands from a cold start.

``python -m benchmarks start [ROUNDS]``: a project with the sample documents is synced once. Then the commands
take turns, and the best round of each counts. Processor seconds include children, and are valid on a busy
machine, too. The daemon is timed until it reports that it is in step; the bare interpreter is the lower limit
of any command.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from socket import socket

import yaml

INGESTOR = Path(sys.executable).with_name("ingestor")
DOCUMENTS = Path(__file__).parents[1] / "documents"
BARE = "python -c pass"
GOALS = {  # seconds on the clock, on an idle machine of two cores
    "--help": 0.3, "status": 0.7, "ls": 0.7, "plan": 0.7, "query mill": 1.5, "run": 4.0,
}  # fmt: skip
COMMANDS = (
    *("--help", "--version", "status", "ls", "plan", "query mill", "show README.md", "collections", "verify"),
    *("pause", "resume", "sync", "run"),
)


def main(rounds: int = 3) -> None:
    """Prints a table."""
    with tempfile.TemporaryDirectory(prefix="ingestor-start-") as folder:
        project = Path(folder)
        configure(project)
        one(project, "sync")
        turns = [{name: one(project, name) for name in (BARE, *COMMANDS)} for _ in range(rounds)]
    print(f"{'':16} {'clock':>7} {'work':>7} {'goal':>6}   seconds; best of {rounds}")
    for name in (BARE, *COMMANDS):
        clock, work = (min(turn[name][part] for turn in turns) for part in (0, 1))
        print(f"{name:16} {clock:7.2f} {work:7.2f} {GOALS.get(name, ''):>6}")


def configure(folder: Path) -> None:
    shutil.copytree(DOCUMENTS, folder / "documents")
    shutil.copy(next(DOCUMENTS.rglob("*.md")), folder / "documents" / "README.md")
    source = {"name": "docs", "kind": "folder", "path": "./documents", "collection": "docs"}
    config = {"state": "./state", "chroma": {"path": "./chroma", "port": free_port()}, "sources": [source]}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def free_port() -> int:
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def one(project: Path, name: str) -> tuple[float, float]:
    """Run a command; return elapsed and processor seconds."""
    before, begun = worked(), time.perf_counter()
    if name == "run":
        seconds = until_in_step(project)
    else:
        command = [sys.executable, "-c", "pass"] if name == BARE else [str(INGESTOR), *name.split()]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True)
        seconds = time.perf_counter() - begun
        if done.returncode:
            raise SystemExit(f"{name} ended with {done.returncode}: {done.stderr or done.stdout}")
    return seconds, worked() - before


def until_in_step(project: Path) -> float:
    begun = time.perf_counter()
    daemon = subprocess.Popen(
        [str(INGESTOR), "run", "--json"], cwd=project, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert daemon.stderr is not None
    for line in daemon.stderr:
        if json.loads(line).get("event") == "in_step":
            break
    seconds = time.perf_counter() - begun
    daemon.send_signal(signal.SIGTERM)
    daemon.communicate()
    return seconds


def worked() -> float:
    """Return the processor seconds of all ended children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
