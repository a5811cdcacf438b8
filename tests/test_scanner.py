"""What a hint has listed: a real journal and sources that tell which part of them was asked for."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from ingestor.journal import Journal
from ingestor.listing import Source
from ingestor.model import Blob, CollectionName, Hint, Item, SourceName
from ingestor.scanner import Scanner
from ingestor.work import Outcome
from tests.simulation.ports import Inline


@dataclass
class Whole:
    asked: list[str] = field(default_factory=list)

    def scan(self) -> Iterator[Item]:
        self.asked.append("")
        return iter(())

    def fetch(self, item: Item) -> Blob:
        raise NotImplementedError


class InParts(Whole):
    def scan_under(self, under: str) -> Iterator[Item]:
        self.asked.append(under)
        return iter(())


@dataclass
class World:
    """Sources by (name, collection); what each was asked for since all were listed."""

    journal: Journal
    sources: dict[tuple[str, str], Whole]

    def __post_init__(self) -> None:
        self.pool = Inline()
        self.scanner = Scanner(self.journal, self.pool, lambda: 1e9, lambda: 0.5, lambda collection: None)
        tools = cast(Any, None)
        self.scanner.configure(
            [Source(SourceName(n), CollectionName(c), s, tools) for (n, c), s in self.sources.items()],
            watch=False,
        )
        self.step()
        for source in self.sources.values():
            source.asked.clear()

    def step(self) -> None:
        self.scanner.start()
        while outcome := self.pool.next(0):
            self.scanner.scanned(cast(Any, outcome.tag), outcome)

    def hint(self, *outcomes: Outcome) -> dict[tuple[str, str], list[str]]:
        for outcome in outcomes:
            self.scanner.hinted(cast(Any, outcome.tag), outcome)
        self.step()
        return {feed: source.asked for feed, source in self.sources.items() if source.asked}


PUSH, WIKI, NEXT, MAIL = ("push", "docs"), ("wiki", "docs"), ("wiki", "docs--2"), ("mail", "post")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    journal = Journal(tmp_path / "journal.sqlite3")
    yield World(journal, {PUSH: InParts(), WIKI: InParts(), NEXT: InParts(), MAIL: Whole()})
    journal.close()


def hint(under: str = "", source: str | None = None) -> Outcome:
    return Outcome(PUSH, Hint(under, None if source is None else SourceName(source)))


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ([hint("a/b")], {PUSH: ["a/b"]}),
        ([hint()], {PUSH: [""]}),
        ([hint("a/b", "wiki")], {WIKI: ["a/b"], NEXT: ["a/b"]}),
        ([hint("", "wiki")], {WIKI: [""], NEXT: [""]}),
        ([hint("a/b", "mail")], {MAIL: [""]}),
        ([hint("a/b", "wiki"), hint("a", "wiki"), hint("c")], {PUSH: ["c"], WIKI: ["a"], NEXT: ["a"]}),
        ([Outcome(PUSH, error=OSError("gone"))], {PUSH: [""]}),
        ([Outcome(("old", "docs"), Hint("", SourceName("wiki")))], {}),
    ],
)
def test_a_hint_has_the_source_listed_that_it_speaks_of(world: World, given: Any, asked: Any) -> None:
    assert world.hint(*given) == asked


def test_a_hint_of_an_unknown_source_is_said(world: World, caplog: pytest.LogCaptureFixture) -> None:
    assert world.hint(hint("a", "wikki")) == {}
    assert "source push says to look again at 'wikki', but no source is called so" in caplog.text
