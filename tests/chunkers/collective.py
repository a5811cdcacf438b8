"""What every chunker owes whose cuts depend on the collection: after any history, as if made at once.

def test_collection_is_always_as_if_made_at_once() -> None:
    keep(PLUGIN, {"target": 20})
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ingestor.embedders.hashing import HashingEmbedder, HashingOptions
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Chunker, Collective
from ingestor.registry import Plugin
from tests.chunkers.laws import TOKENS, WORDS, Noting, essay
from tests.examples import examples

# The laws, by name: a broken engine must be found out by one of them.
MADE_AT_ONCE = "every document is cut as if the collection were made at once"
NOT_EMBEDDED = "a visit embeds nothing"
NOT_IN_VAIN = "a visit changes chunks"

names = st.sampled_from("abcde")
prose = st.builds(essay, st.integers(0, 6), st.integers(0, 40))
chatter = st.lists(st.lists(st.sampled_from(WORDS), min_size=4, max_size=20).map(" ".join), max_size=30)
texts = prose | chatter.map("\n\n".join)  # alike and unlike: documents that need different penalties

fake = HashingEmbedder(HashingOptions()).embed


class Keeper(RuleBasedStateMachine):
    """Keeps a collection as the engine does: sums and intervals, and visits only to those that are due."""

    def __init__(
        self, chunker: Chunker, visits: list[str], widened: int, read: Callable[[str], Document], joins: bool
    ) -> None:
        super().__init__()
        self.read = read
        assert isinstance(chunker, Collective)
        self.chunker, self.statistic = chunker, chunker
        self.visits, self.widened, self.joins = visits, widened, joins
        self.documents: dict[str, Document] = {}
        self.kept: dict[str, Chunking] = {}
        self.embed = Noting(fake)

    def others(self, name: str) -> Sums | None:
        sums = [kept.sums for other, kept in self.kept.items() if other != name and kept.sums is not None]
        return np.sum(sums, axis=0) if sums else None

    @rule(name=names, text=texts)
    def put(self, name: str, text: str) -> None:
        self.documents[name] = self.read(text)
        self.kept.pop(name, None)
        self.kept[name] = self.chunker.chunk(self.documents[name], self.embed, self.others(name))
        self.settle()

    @rule(name=names)
    def remove(self, name: str) -> None:
        self.documents.pop(name, None)
        self.kept.pop(name, None)
        self.settle()

    def settle(self) -> None:
        sums = [kept.sums for kept in self.kept.values() if kept.sums is not None]
        if not sums:
            return
        value = self.statistic.value(np.sum(sums, axis=0))
        due = {name for name, kept in self.kept.items() if self._is_due(kept, value)}
        self.visits.extend(due)
        before, seen = {name: self.kept[name].chunks for name in due}, {*self.embed.texts}
        for name in due:
            self.kept[name] = self.chunker.chunk(self.documents[name], self.embed, self.others(name))
        assert {*self.embed.texts} == seen, NOT_EMBEDDED
        changed = [self.kept[name].chunks != chunks for name, chunks in before.items()]
        assert self.joins or all(changed), NOT_IN_VAIN

    def _is_due(self, kept: Chunking, value: int) -> bool:
        if kept.interval is None:
            return False
        low, high = kept.interval
        return not low - self.widened <= value <= high + self.widened

    @invariant()
    def as_if_made_at_once(self) -> None:
        for name, made in from_scratch(self.chunker, self.documents).items():
            assert same(self.kept[name], made), MADE_AT_ONCE


def from_scratch(chunker: Chunker, documents: Mapping[str, Document]) -> dict[str, Chunking]:
    """Each document's sums by itself, then its chunks beside the sums of all others."""
    sums = {name: chunker.chunk(document, fake, None).sums for name, document in documents.items()}
    made = {}
    for name, document in documents.items():
        others = [found for other, found in sums.items() if other != name and found is not None]
        made[name] = chunker.chunk(document, fake, np.sum(others, axis=0) if others else None)
    return made


def same(first: Chunking, second: Chunking) -> bool:
    return (
        first.chunks == second.chunks
        and first.interval == second.interval
        and np.array_equal(first.sums, second.sums)  # type: ignore[arg-type]
        and (first.vectors is None) == (second.vectors is None)
        and (first.vectors is None or np.array_equal(first.vectors, second.vectors))  # type: ignore[arg-type]
    )


def keep(
    plugin: Plugin,
    options: Mapping[str, Any],
    *,
    widened: int = 0,
    broken: bool = False,
    read: Callable[[str], Document] = Document,
    joins: bool = False,
) -> None:
    """Runs the machine on a chunker, to whose intervals a broken engine adds ``widened`` on either side.

    ``broken``: the chunker is, so look for long. ``read``: makes a document of a text. ``joins``: whether the
    chunker joins small chunks, so that other cuts may leave the same chunks.
    """
    chunker, visits = plugin.build(plugin.options(**options), TOKENS), list[str]()
    searching = examples(24, stateful_step_count=12)
    if widened or broken:
        searching = settings(
            searching, max_examples=200, phases=[Phase.generate], derandomize=True, database=None
        )
    else:
        searching = settings(searching, derandomize=False)  # else each round plays the same histories
    for _ in range(30):  # a few random histories may change no statistic so far that a document is due
        run_state_machine_as_test(partial(Keeper, chunker, visits, widened, read, joins), settings=searching)
        if visits:
            break
    assert visits
