"""Passages are spans of their documents, merged, in order, and within a budget."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Record
from ingestor.search.passages import passages, within

TEXT = "First words.\n\nSecond part here.\nThird line.\n\n  Indented fourth.  Fifth."


def spans(text: str = TEXT) -> list[tuple[int, int]]:
    found, at = [], 0
    for part in ["First words.", "Second part here.", "Third line.", "Indented fourth.", "Fifth."]:
        at = text.index(part, at)
        found.append((at, at + len(part)))
    return found


def chunk(n: int, start: int, end: int, document: str = "d", **metadata: object) -> Record:
    where = {"start_index": start, "end_index": end, "chunk_index": n, "document_id": document}
    lines = {"start_line": TEXT[:start].count("\n") + 1, "end_line": TEXT[: end - 1].count("\n") + 1}
    told = {"source": f"/{document}", "heading_path": "A > B", "page": 0}
    return Record(f"{document}#{n}", TEXT[start:end], {**where, **lines, **told, **metadata}, np.empty(0))


CHUNKS = [chunk(n, *span) for n, span in enumerate(spans())]


@pytest.mark.parametrize(
    "chosen", [(0,), (0, 1), (1, 0), (0, 1, 2, 3, 4), (0, 2), (0, 1, 3, 4), (4, 2, 3, 2)]
)
def test_consecutive_records_are_merged_into_their_span(chosen: tuple[int, ...]) -> None:
    found = passages([CHUNKS[n] for n in chosen], ["d"])
    assert len(found) == 1 + sum(b - a > 1 for a, b in pairwise(sorted(set(chosen))))
    for passage in found:
        assert passage.text == TEXT[passage.start : passage.end]
        assert passage.lines == (
            TEXT[: passage.start].count("\n") + 1,
            TEXT[: passage.end - 1].count("\n") + 1,
        )
    assert [id_ for passage in found for id_ in passage.ids] == [f"d#{n}" for n in sorted(set(chosen))]
    assert (found[0].source, found[0].heading_path, found[0].page) == ("/d", "A > B", 0)


@given(st.lists(st.tuples(st.integers(0, len(TEXT) - 12), st.integers(1, 12)), min_size=1, max_size=8))
def test_overlapping_spans_are_merged(windows: list[tuple[int, int]]) -> None:
    records = [chunk(10 * n, start, start + size) for n, (start, size) in enumerate(windows)]
    found = passages(records, ["d"])
    assert all(passage.text == TEXT[passage.start : passage.end] for passage in found)
    assert all(one.end < other.start for one, other in pairwise(found))
    covered = {at for passage in found for at in range(passage.start or 0, passage.end or 0)}
    assert covered == {at for start, size in windows for at in range(start, start + size)}


def test_documents_stand_in_the_order_of_their_hits() -> None:
    records = [chunk(0, 0, 5, "late"), chunk(3, 20, 25, "first"), chunk(0, 0, 5, "first")]
    assert [(one.source, one.start) for one in passages(records, ["first", "late", "first"])] == [
        ("/first", 0),
        ("/first", 20),
        ("/late", 0),
    ]


def test_texts_that_are_no_spans_stay_alone() -> None:
    written = Record("d#1", "Somebody else's words", CHUNKS[1].metadata, np.empty(0))
    assert [one.text for one in passages([CHUNKS[0], written], ["d"])] == [CHUNKS[0].text, written.text]


def test_records_of_other_programs_have_no_place() -> None:
    (found,) = passages([Record("x", "text", {}, np.empty(0))], ["x"])
    assert (found.text, found.source, found.start, found.lines, found.ids) == ("text", "", None, None, ("x",))


def count(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


@pytest.mark.parametrize(("budget", "used", "size"), [(1, 0, 0), (3, 1, 1), (7, 1, 2), (99, 3, 5)])
def test_budget_is_kept(budget: int, used: int, size: int) -> None:
    around = {"d#0": CHUNKS[:2], "d#2": CHUNKS[2:4], "d#4": CHUNKS[4:]}
    hits, records = within(list(around), around.__getitem__, budget, count)  # type: ignore[arg-type]
    assert (hits, len(records)) == (list(around)[:used], size)
    texts = [passage.text for passage in passages(records, ["d"])]
    assert sum(count(texts)) <= budget


def test_passage_has_the_table_header_of_its_first_record() -> None:
    first, second = (chunk(n, *spans()[n], table_header=f"header {n}") for n in (0, 1))
    (passage,) = passages([second, first], ["d"])
    assert passage.table_header == "header 0"
