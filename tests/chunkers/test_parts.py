"""What semantic strategies compare: whole sentences, each with the headings before it."""

import pytest

from ingestor.chunkers.parts import join_labels, small_pieces, whole_paragraphs, whole_sentences
from ingestor.model import Block, Document
from ingestor.text.spans import Span
from tests.chunkers.golden import sample
from tests.chunkers.laws import TOKENS

TEXT = "# A\n\n## B\n\nOne. Two.\n\n# C\n\nThree.\n\n# D"
HEADINGS = ["# A", "## B", "# C", "# D"]


def document(text: str = TEXT) -> Document:
    at = [(text.index(heading), len(heading)) for heading in HEADINGS]
    return Document(text, tuple(Block("heading", start, start + size, 1) for start, size in at))


def shown(spans: list[Span], text: str = TEXT) -> list[str]:
    return [text[start:end] for start, end in spans]


def test_heading_belongs_to_what_follows_it() -> None:
    assert shown(whole_sentences(document(), TOKENS, None)) == [
        "# A\n\n## B\n\nOne.",
        "Two.",
        "# C\n\nThree.",
        "# D",
    ]
    assert shown(whole_paragraphs(document(), TOKENS, 50)) == [
        "# A\n\n## B\n\nOne. Two.",
        "# C\n\nThree.",
        "# D",
    ]
    assert shown(small_pieces(document(), TOKENS, 4, 50)) == shown(whole_paragraphs(document(), TOKENS, 50))


def test_heading_without_room_stays_alone() -> None:
    assert shown(whole_sentences(document(), TOKENS, 5)) == [
        "# A\n\n## B",
        "One.",
        "Two.",
        "# C\n\nThree.",
        "# D",
    ]


def test_part_that_only_begins_with_a_heading_leads_nothing() -> None:
    spans = [(0, 15), (16, 20), (22, 32), (35, 38)]
    assert join_labels(document(), spans, TOKENS, None) == spans


@pytest.mark.parametrize("name", ["hydroponics.md", "roots.tex", "lamps.rst"])
def test_small_pieces_cover_text_once(name: str) -> None:
    text = sample(name)
    at = 0
    for start, end in small_pieces(text, TOKENS, 50, 200):
        assert not text.text[at:start].strip()
        at = end
    assert not text.text[at:].strip()
