"""The composition keeps the laws of ``Index``, and the lexical index follows every write."""

from collections.abc import Iterator
from itertools import count

import pytest

from ingestor.lexical.composed import ComposedIndex
from ingestor.lexical.index import LexicalIndex
from tests.chroma.laws import IndexLaws, record
from tests.lexical.worlds import in_step, opened
from tests.memory_index import MemoryIndex


@pytest.fixture
def fresh(tmp_path) -> Iterator[object]:
    numbers, made = count(), []
    with opened(tmp_path / "lexical.sqlite3") as file:

        def new() -> ComposedIndex:
            dense, lexical = MemoryIndex(), LexicalIndex(file, f"uuid-{next(numbers)}")
            made.append((dense, lexical))
            return ComposedIndex(dense, lexical, lambda: None)

        yield new
        for dense, lexical in made:
            in_step(dense, lexical)


class TestComposed(IndexLaws):
    pass


def test_a_patch_of_the_language_stems_again(fresh) -> None:
    index = fresh()
    index.upsert([record("a#0", "running dogs", language="en"), record("b#0", "running dogs", language="de")])
    index.patch([("a#0", {"language": "de-AT"}), ("b#0", {"language": None})])
    assert {key: one.metadata.get("language") for key, one in index._dense.records.items()} == {
        "a#0": "de-AT",
        "b#0": None,
    }
    languages = {id_: row.decided.language for id_, row in index._lexical.read(["a#0", "b#0"]).items()}
    assert languages == {"a#0": "de", "b#0": ""}


def test_a_language_that_is_not_named_stays(fresh) -> None:
    index = fresh()
    index.upsert([record("a#0", "running dogs", language="en")])
    index.upsert([record("a#0", "running cats")])
    assert index._lexical.read(["a#0"])["a#0"][1:] == (("en", "", ""), "run cat")
