"""Small chunks that know their parents."""

import json
from collections import defaultdict
from typing import ClassVar

import pytest

from ingestor.chunkers.hierarchical import PLUGIN
from ingestor.model import Chunk
from tests.chunkers.golden import sample
from tests.chunkers.laws import TOKENS, ChunkerLaws, Options, cut, essay

LEVELS = [
    {"name": "passage", "unit": "paragraph", "max_tokens": 120},
    {"name": "sentences", "unit": "sentence", "max_tokens": 40},
]


class TestHierarchical(ChunkerLaws):
    plugin = PLUGIN
    options: ClassVar[Options] = {"levels": LEVELS}

    def may_join(self, first: Chunk, second: Chunk) -> bool:
        return dict(first.extra)["parent_index"] == dict(second.extra)["parent_index"]


def by_parent(chunks: tuple[Chunk, ...]) -> dict[tuple[int, int, int], list[Chunk]]:
    families = defaultdict(list)
    for chunk in chunks:
        extra = dict(chunk.extra)
        families[extra["parent_index"], extra["parent_start"], extra["parent_end"]].append(chunk)
    return families


@pytest.mark.parametrize("options", [{}, {"levels": LEVELS}, {"max_tokens": 30}])
def test_children_together_are_their_parent(options: Options) -> None:
    text = essay(50)
    families = by_parent(cut(PLUGIN, text, **options))
    assert [number for number, _, _ in families] == list(range(len(families)))
    for (_, start, end), children in families.items():
        joined = "".join("".join(child.text.split()) for child in children)
        assert joined == "".join(text[start:end].split())


def test_each_level_keeps_its_size_and_lies_within_the_one_above() -> None:
    text = essay(50)
    chunks = cut(PLUGIN, text)
    assert len(by_parent(chunks)) > 5
    for chunk in chunks:
        extra = dict(chunk.extra)
        (section, _, *outer), (passage, number, *inner) = json.loads(str(extra["parents"]))
        assert (section, passage) == ("section", "passage")
        assert (extra["level"], extra["parent_level"]) == ("sentences", "passage")
        assert [extra["parent_start"], extra["parent_end"], extra["parent_index"]] == [*inner, number]
        assert outer[0] <= inner[0] <= chunk.start < chunk.end <= inner[1] <= outer[1]
        sizes = [TOKENS.count(text[slice(*span)]) for span in (outer, inner, (chunk.start, chunk.end))]
        assert [size <= most for size, most in zip(sizes, (1500, 400, 100), strict=True)] == [True] * 3


def test_no_parent_reaches_across_a_heading() -> None:
    document = sample("hydroponics.md")
    headings = [block.start for block in document.blocks if block.kind == "heading" and block.level == 2]
    for _, start, end in by_parent(cut(PLUGIN, document, depth=2)):
        assert not any(start < heading < end for heading in headings)


def test_small_children_never_join_those_of_another_parent() -> None:
    text = "\n\n".join(f"Paragraph {number} is short." for number in range(40))
    levels = [{**LEVELS[0], "max_tokens": 20}, {**LEVELS[1], "max_tokens": 20}]
    alone = cut(PLUGIN, text, levels=levels)
    joined = cut(PLUGIN, text, levels=levels, min_tokens=20)
    assert by_parent(joined).keys() == by_parent(alone).keys()
    assert len(by_parent(alone)) > 10
