"""Correctness after edits, crashes and changes: ingestor and others over the same folder.

``python -m benchmarks correctness [SYSTEM] [ROW]`` prints a fact for each system and row, or for those named:
``correctness rename`` runs one row. rows.py has the rows, and systems.py how each system is used. The others
are installed, pinned, in environments of their own under the cache folder. Facts are kept in the folder
facts; ``python -m benchmarks correctness table`` makes the tables of docs/compare.md from them.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks._needs import KEPT, Missing, failure
from benchmarks.correctness.rows import ROWS, Pass

HERE = Path(__file__).parent
FACTS = HERE / "facts"
NAMES = {
    "ingestor": "ingestor",
    "langchain": "LangChain `index()`",
    "llamaindex": "LlamaIndex pipeline",
    "cocoindex": "CocoIndex",
    "pathway": "Pathway",
}
INDEXES = {"cocoindex": ("lancedb",), "pathway": ("rows.sqlite3",)}
QUIET = {
    "COCOINDEX_DISABLE_USAGE_TRACKING": "1",
    "ANONYMIZED_TELEMETRY": "False",
    "PATHWAY_PERSISTENT_STORAGE": "",
    "PYTHONWARNINGS": "ignore",
}
PATIENCE = 300  # seconds for a pass


def main(system: str = "", row: str = "", documents: int = 20) -> None:
    """Print the facts of all systems and rows, or of those named; keep them if all documents are used."""
    if system == "table":
        print(table({each: json.loads((FACTS / f"{each}.json").read_text("utf-8")) for each in NAMES}))
        return
    if system in ROWS:
        system, row = "", system
    for name in [system] if system else NAMES:
        python, versions = environment(name)
        for each in [row] if row else ROWS:
            begun = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="ingestor-correctness-") as folder:
                fact = ROWS[each](SystemTrial(name, python, Path(folder), documents))
            print(f"{name}: {each}: {fact} ({time.monotonic() - begun:.0f} s)", flush=True)
            if documents == 20:
                keep(name, each, fact, versions)


def environment(name: str) -> tuple[Path, str]:
    """Return the interpreter that has the system, and the versions that count. Raises Missing."""
    if name == "ingestor":
        return Path(sys.executable), "this version"
    wanted = HERE / "requirements" / f"{name}.txt"
    home = KEPT / "correctness" / name
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists() or ready.read_text() != wanted.read_text():
        venv.create(home, with_pip=True)
        try:
            install = [python, "-m", "pip", "install", "--quiet", "-r", wanted]
            subprocess.run(install, check=True, capture_output=True)
        except subprocess.CalledProcessError as error:
            raise Missing(f"the packages of {wanted} cannot be installed: {failure(error)}") from error
        ready.write_text(wanted.read_text())
    return python, ", ".join(line for line in wanted.read_text().split() if "==" in line)


@dataclass
class SystemTrial:
    """A folder of documents that a system has indexed once."""

    name: str
    python: Path
    folder: Path
    number: int  # documents
    documents: Path = field(init=False)
    base: Pass = field(init=False)
    seconds: float = field(init=False)  # of a first pass

    def __post_init__(self) -> None:
        self.documents = self.folder / "documents"
        self.documents.mkdir()
        for number in range(self.number):
            sentences = (
                f"Sentence {n} of mill {number} speaks of the river, the wheel and house {number * 100 + n}. "
                f"It goes on to word {n * 7 % 13} and to word {n * 5 % 11}, and to the end of its line."
                for n in range(12)
            )
            text = "\n\n".join([f"# Mill {number}", *sentences])
            (self.documents / f"{number}.md").write_text(f"{text}\n")
        begun = time.monotonic()
        self.base = self.sync()
        self.seconds = time.monotonic() - begun
        if self.base.error or not self.base.records:
            raise Missing(f"{self.name} does not index the documents: {self.base.error}")

    @property
    def indexes(self) -> tuple[Path, ...]:
        return tuple(self.folder / "state" / name for name in INDEXES.get(self.name, ("chroma",)))

    def sync(self, model: str = "a", size: int = 300) -> Pass:
        return self._pass(self.folder / "state", model, size)

    def fresh(self, model: str = "a", size: int = 300) -> Pass:
        state = self.folder / "fresh"
        try:
            return self._pass(state, model, size)
        finally:
            shutil.rmtree(state, ignore_errors=True)

    def killed(self, share: float, size: int = 300) -> Pass:
        """Kill a pass after this share of a first pass's time, and return what readers see then."""
        with subprocess.Popen(
            self._command(self.folder / "state", "a", size),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **QUIET},
        ) as running:
            try:
                running.wait(share * self.seconds)
            except subprocess.TimeoutExpired:
                running.kill()
        return self._pass(self.folder / "state", "-", size)

    def _command(self, state: Path, model: str, size: int) -> list[str]:
        script = str(HERE / "systems.py")
        return [str(self.python), script, self.name, str(state), str(self.documents), model, str(size)]

    def _pass(self, state: Path, model: str, size: int) -> Pass:
        done = subprocess.run(
            self._command(state, model, size),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            env={**os.environ, **QUIET},
        )
        if done.returncode:
            words = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            return Pass(0, words, Counter(), frozenset(), 0)
        answer = json.loads(done.stdout.splitlines()[-1])
        return Pass(
            answer["embedded"],
            answer["error"],
            Counter((document, text) for document, text, _ in answer["records"]),
            frozenset(width for *_, width in answer["records"]),
            answer["lost"],
        )


def keep(name: str, row: str, fact: str, versions: str) -> None:
    """Keep a fact with the versions and the day."""
    file = FACTS / f"{name}.json"
    one = json.loads(file.read_text("utf-8")) if file.exists() else {"rows": {}}
    one |= {"versions": versions, "date": datetime.now(UTC).date().isoformat()}
    one["rows"][row] = fact
    FACTS.mkdir(exist_ok=True)
    file.write_text(json.dumps(one, indent=1, ensure_ascii=False) + "\n", "utf-8")


def table(facts: dict[str, dict[str, dict[str, str]]]) -> str:
    """Return the versions, and a section for each row with a line for each outcome."""
    versions = [f"| {NAMES[name]} | {one['versions']} | {one['date']} |" for name, one in facts.items()]
    parts = ["\n".join(["| System | Versions | Measured |", "|---|---|---|", *versions])]
    for row, function in ROWS.items():
        outcomes = dict[str, list[str]]()
        for name, one in facts.items():
            outcomes.setdefault(one["rows"].get(row, "not run"), []).append(NAMES[name])
        lines = [f"| {outcome} | {', '.join(systems)} |" for outcome, systems in outcomes.items()]
        title, words = row.replace("_", " ").capitalize(), (function.__doc__ or "").partition("\n")[0]
        tested = f"Tested: {words[0].lower()}{words[1:]}"
        parts.append(
            "\n".join([f"### {title}", "", tested, "", "| Outcome | Systems |", "|---|---|", *lines])
        )
    return "\n\n".join(parts)
