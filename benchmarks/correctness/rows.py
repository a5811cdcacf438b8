"""Rows of the table: a change of documents, and the result of the system's next pass.

Each row is a function of a trial whose folder is already indexed, and returns a short fact. A system is
compared with itself: *exact* means the records of its first run over the same folder.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Rows = Counter[tuple[str, str]]  # document and text of each record


@dataclass(frozen=True)
class Pass:
    """Result of a pass. ``lost``: records that a search by their own vector does not find."""

    embedded: int
    error: str | None
    records: Rows
    widths: frozenset[int]
    lost: int


class Trial(Protocol):
    """A folder of documents and the state of a system."""

    documents: Path
    indexes: tuple[Path, ...]  # files and folders of the index, without the system's own bookkeeping
    base: Pass

    def sync(self, model: str = "a", size: int = 300) -> Pass: ...
    def killed(self, share: float, size: int = 300) -> Pass: ...
    def fresh(self, model: str = "a", size: int = 300) -> Pass: ...


def difference(result: Pass, wanted: Pass) -> str:
    """Describe how the records differ from the wanted records: missing, stale, orphaned, twice."""
    known = {document for document, _ in wanted.records}
    surplus = result.records - wanted.records
    kinds = {
        "missing": (wanted.records - result.records).total(),
        "twice": sum(number for row, number in surplus.items() if row in wanted.records),
        "stale": sum(n for row, n in surplus.items() if row not in wanted.records and row[0] in known),
        "orphaned": sum(n for row, n in surplus.items() if row[0] not in known),
    }
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number) or "exact"


def after(trial: Trial, done: Pass) -> str:
    failed = f"fails: {done.error[:90]}; " if done.error else ""
    return f"{failed}{done.embedded} embedded; {difference(done, trial.fresh())}"


def edit_one_sentence(trial: Trial) -> str:
    """Edit one sentence of one document."""
    file = trial.documents / "3.md"
    file.write_text(file.read_text().replace("Sentence 5 of mill 3 speaks", "Sentence 5 of mill 3 is silent"))
    return after(trial, trial.sync())


def rename(trial: Trial) -> str:
    """Rename a document."""
    (trial.documents / "3.md").rename(trial.documents / "three.md")
    return after(trial, trial.sync())


def move_and_copy(trial: Trial) -> str:
    """Move a document, and copy another document to the old name."""
    (trial.documents / "3.md").rename(trial.documents / "three.md")
    shutil.copy(trial.documents / "4.md", trial.documents / "3.md")
    return after(trial, trial.sync())


def delete_while_stopped(trial: Trial) -> str:
    """Delete a document while the system is stopped, then run it."""
    (trial.documents / "3.md").unlink()
    return after(trial, trial.sync())


def unmounted_folder(trial: Trial) -> str:
    """Empty the folder of documents for one run, as if its disk were not mounted, and fill it again."""
    away = trial.documents.with_name("away")
    trial.documents.rename(away)
    trial.documents.mkdir()
    empty = trial.sync()
    trial.documents.rmdir()
    away.rename(trial.documents)
    again = trial.sync()
    kept = (empty.records & trial.base.records).total()
    return f"{kept} of {trial.base.records.total()} kept; back: {after(trial, again)}"


def kill(trial: Trial) -> str:
    """Change all documents, kill the process (-9) four times while it writes them, then run it once."""
    for file in trial.documents.iterdir():
        file.write_text(file.read_text().replace("mill", "windmill"))
    for share in (0.5, 0.65, 0.8, 0.95):
        trial.killed(share)
    done = trial.sync()
    failed = f"fails: {done.error[:90]}; " if done.error else ""
    return f"{failed}{difference(done, trial.fresh())}"


def change_model(trial: Trial) -> str:
    """Change the embedding model to a model whose vectors have another length."""
    done = trial.sync(model="b")
    failed = f"fails: {done.error[:90]}; " if done.error else ""
    wanted = trial.fresh(model="b")
    state = difference(done, wanted) if done.widths == wanted.widths else "old vectors stay"
    return f"{failed}{done.embedded} embedded; {state}"


def change_strategy(trial: Trial) -> str:
    """Halve the size of chunks, and compare what apps can read if the process is killed half-way."""
    wanted, seen = trial.fresh(size=150), set[str]()
    for share in (0.6, 0.75, 0.9):
        result = trial.killed(share, size=150).records
        old, new = result - wanted.records, result - trial.base.records
        if result == trial.base.records:
            seen.add("the old")
        elif result == wanted.records:
            seen.add("the new")
        else:
            seen.add(f"{old.total()} old and {new.total()} new of {wanted.records.total()}")
    done = trial.sync(size=150)
    return f"readers saw {' or '.join(sorted(seen))} records; at the end {difference(done, wanted)}"


def unreadable_version(trial: Trial) -> str:
    """Replace one document with bytes that are not text, and edit another document."""
    wanted = trial.fresh()
    (trial.documents / "3.md").write_bytes(bytes(range(256)) * 20)
    file = trial.documents / "4.md"
    file.write_text(file.read_text().replace("Sentence 5 of mill 4 speaks", "Sentence 5 of mill 4 is silent"))
    done = trial.sync()
    old = sum(n for row, n in wanted.records.items() if row[0] == "3.md")
    kept = sum(n for row, n in done.records.items() if row[0] == "3.md" and row in wanted.records)
    rubbish = sum(n for row, n in done.records.items() if row[0] == "3.md" and row not in wanted.records)
    other = "updated" if any("is silent" in text for _, text in done.records) else "not updated"
    reported = "reported" if done.error else "not reported"
    garbage = f", records made of its bytes: {rubbish}" if rubbish else ""
    return f"{reported}; {kept} of its {old} old records stay{garbage}; the other document is {other}"


def reach(trial: Trial) -> str:
    """Change all documents four times, and search each record by its own vector, with ten results."""
    for number in range(4):
        for file in trial.documents.iterdir():
            file.write_text(file.read_text().replace("speaks", f"speaks {number}"))
        done = trial.sync()
    return f"{done.lost} of {done.records.total()} not found"


def restored_backup(trial: Trial) -> str:
    """Restore an older copy of the index, but not the files in which the system tracks documents."""
    kept = trial.documents.with_name("backup")
    for place in trial.indexes:
        copy = shutil.copytree if place.is_dir() else shutil.copy
        kept.mkdir(exist_ok=True)
        copy(place, kept / place.name)
    for name in ("3.md", "4.md", "5.md"):
        file = trial.documents / name
        file.write_text(file.read_text().replace("Sentence 5 of", "Sentence five of"))
    trial.sync()
    for place in trial.indexes:
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink()
        (kept / place.name).rename(place)
    return after(trial, trial.sync())


ROWS: dict[str, Callable[[Trial], str]] = {
    each.__name__: each
    for each in (
        edit_one_sentence, rename, move_and_copy, delete_while_stopped, unmounted_folder, kill, change_model,
        change_strategy, unreadable_version, reach, restored_backup,
    )
}  # fmt: skip
