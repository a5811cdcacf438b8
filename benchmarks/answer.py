"""From nothing to the first answer: ingestor, haiku.rag and qmd, over the sample documents.

``python -m benchmarks answer [NAME]`` installs each, pinned, in a folder of its own, and asks it once. It
prints the seconds of each command; a command that fails or lasts longer than PATIENCE ends its system, with
its last line. ingestor is installed from the wheel in ``dist`` (``make dist``). haiku.rag needs
``python3.13``, and qmd Node 22 with ``npm``. Packages come from the caches of pip and npm.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks._needs import ROOT, need, need_program

QUESTION = "How long may I keep a book?"
DOCUMENTS = ROOT / "documents"
PATIENCE = 300  # seconds for a command
HAIKU, QMD = "haiku.rag-slim[docling]==0.101.1", "@tobilu/qmd@2.8.3"


def main(name: str = "") -> None:
    """Ask each system, or the one named."""
    for each in [name] if name else SYSTEMS:
        with tempfile.TemporaryDirectory(prefix="ingestor-answer-") as folder:
            home = Path(folder)
            for command in SYSTEMS[each](home):
                begun = time.monotonic()
                fault = run(command, home)
                shown = " ".join(word.replace(folder, "~") for word in command)
                print(f"{each}: {time.monotonic() - begun:.1f} s: {shown}", flush=True)
                if fault:
                    print(f"{each}: {fault}", flush=True)
                    break


def run(command: list[str], home: Path) -> str:
    """Return the last line of a command that fails; nothing of one that succeeds."""
    env = {**os.environ} if "install" in command else {**os.environ, "HOME": str(home)}
    with (home / "output").open("w+") as output:
        with subprocess.Popen(
            command, cwd=home, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        ) as running:
            try:
                code = running.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                running.kill()
                return f"no answer after {PATIENCE} s"
        output.seek(0)
        return "" if code == 0 else (output.read().strip().splitlines() or ["no output"])[-1]


def ingestor(home: Path) -> list[list[str]]:
    wheels = sorted(ROOT.glob("dist/*.whl"))
    need(wheels, "there is no wheel in dist: run `make dist`")
    return [
        ["python3", "-m", "venv", f"{home}/env"],
        [f"{home}/env/bin/pip", "install", "--quiet", str(wheels[-1])],
        [f"{home}/env/bin/ingestor", "try", str(DOCUMENTS), "--ask", QUESTION],
    ]


def haiku(home: Path) -> list[list[str]]:
    need_program("python3.13", "python3.13")
    program = f"{home}/env/bin/haiku-rag"
    return [
        ["python3.13", "-m", "venv", f"{home}/env"],
        [f"{home}/env/bin/pip", "install", "--quiet", HAIKU],
        [program, "init"],
        [program, "add-src", str(DOCUMENTS)],
        [program, "search", QUESTION],
    ]


def qmd(home: Path) -> list[list[str]]:
    need_program("npm", "npm")
    (home / "package.json").write_text('{"allowScripts": {"better-sqlite3": true}}')
    shutil.copytree(DOCUMENTS, home / "documents")
    program = f"{home}/node_modules/.bin/qmd"
    return [
        ["npm", "install", "--no-audit", "--no-fund", QMD],
        [program, "collection", "add", f"{home}/documents", "--name", "docs"],
        [program, "search", QUESTION],
        [program, "embed"],
        [program, "query", QUESTION],
    ]


SYSTEMS = {"ingestor": ingestor, "haiku": haiku, "qmd": qmd}
