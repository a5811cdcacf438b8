"""The comparison's rows name what is wrong with an index, and the page shows the facts that were measured."""

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from benchmarks.correctness import FACTS, NAMES, table
from benchmarks.correctness.rows import ROWS, Pass, Rows, difference

ROOT = Path(__file__).parents[1]


def chunks(folder: Path, size: int) -> Rows:
    return Counter(
        (file.name, file.read_bytes().decode("latin-1")[start : start + size])
        for file in folder.iterdir()
        for start in range(0, len(file.read_bytes()), size)
    )


@dataclass
class Fake:
    """A system of one dictionary. ``forgets``: whether it removes what is gone."""

    folder: Path
    forgets: bool
    held: Rows = field(default_factory=Counter)
    indexes: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        self.documents = self.folder / "documents"
        self.documents.mkdir()
        for number in range(6):
            text = "\n\n".join(f"Sentence {n} of mill {number} speaks of the river." for n in range(12))
            (self.documents / f"{number}.md").write_text(text)
        self.base = self.sync()

    def sync(self, model: str = "a", size: int = 300) -> Pass:
        wanted = chunks(self.documents, size)
        added = wanted - self.held
        self.held = wanted if self.forgets else self.held | wanted
        return Pass(added.total(), None, Counter(self.held), frozenset({48 if model == "b" else 64}), 0)

    def killed(self, share: float, size: int = 300) -> Pass:
        return Pass(0, None, Counter(self.held), frozenset({64}), 0)

    def fresh(self, model: str = "a", size: int = 300) -> Pass:
        return Pass(0, None, chunks(self.documents, size), frozenset({64}), 0)


@pytest.mark.parametrize("row", ROWS)
def test_row_of_an_exact_system_finds_nothing_wrong(row: str, tmp_path: Path) -> None:
    fact = ROWS[row](Fake(tmp_path, forgets=True))
    assert not re.search(r"missing|stale|orphaned|twice|fails", fact), fact


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("edit_one_sentence", "stale"), ("rename", "orphaned"), ("move_and_copy", "stale"),
        ("delete_while_stopped", "orphaned"), ("kill", "stale"), ("change_strategy", "stale"),
        ("restored_backup", "stale"),
    ],
)  # fmt: skip
def test_row_of_a_system_that_forgets_nothing_names_the_fault(row: str, fault: str, tmp_path: Path) -> None:
    assert fault in ROWS[row](Fake(tmp_path, forgets=False))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([("a", "1"), ("b", "2")], "exact"),
        ([("a", "1")], "1 missing"),
        ([("a", "1"), ("b", "2"), ("b", "2")], "1 twice"),
        ([("a", "1"), ("b", "2"), ("b", "3"), ("c", "4")], "1 stale, 1 orphaned"),
    ],
)
def test_difference_names_each_kind(found: list[tuple[str, str]], words: str) -> None:
    wanted = Pass(0, None, Counter([("a", "1"), ("b", "2")]), frozenset(), 0)
    assert difference(Pass(0, None, Counter(found), frozenset(), 0), wanted) == words


def test_page_shows_the_measured_facts() -> None:
    facts = {name: json.loads((FACTS / f"{name}.json").read_text("utf-8")) for name in NAMES}
    assert all(one["rows"].keys() == ROWS.keys() for one in facts.values())
    page = (ROOT / "docs/compare.md").read_text("utf-8")
    assert page.partition("<!-- facts -->")[2].strip() == table(facts).strip(), (
        "run: .venv/bin/python -m benchmarks correctness table"
    )


def test_readme_shows_the_measured_facts() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    facts = {name: json.loads((FACTS / f"{name}.json").read_text("utf-8")) for name in NAMES}
    assert f"on {datetime.fromisoformat(max(one['date'] for one in facts.values())):%-d %B %Y}" in readme
    for event, row, outcomes in (
        (
            "a document was renamed",
            "rename",
            {"0 embedded": "0 texts embedded", "6 embedded": "6 texts embedded"},
        ),
        (
            "a disk was not mounted for one run",
            "unmounted_folder",
            {"kept": "index kept", "emptied": "index emptied"},
        ),
        ("the process was killed", "kill", {"exact": "correct after the next run"}),
        (
            "the model was changed",
            "change_model",
            {"exact": "correct", "old vectors stay": "old vectors stay"},
        ),
        ("an older index was restored", "restored_backup", {"exact": "correct", "stale": "outdated records"}),
    ):
        groups = dict[str, list[str]]()
        for name, one in facts.items():
            fact = re.sub(r"^0 of \d+ kept", "emptied", one["rows"][row])
            outcome = next(words for mark, words in outcomes.items() if mark in fact)
            groups.setdefault(outcome, []).append(NAMES[name].split(" ")[0])
        words = "; ".join(f"{outcome}: {', '.join(systems)}" for outcome, systems in groups.items())
        assert f"| {event} | {words} |" in readme
