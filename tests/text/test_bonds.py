"""What belongs to the text after it."""

import pytest

from ingestor.model import Block, Document
from ingestor.text.bonds import announces, bound
from ingestor.text.spans import Span
from tests.chunkers.laws import TOKENS

LONG = "This sentence goes on, " + "and on, " * 60 + "to its end."


def parts(text: str) -> tuple[str, list[Span]]:
    """A text and its parts, which "|" divides."""
    spans, at = [], 0
    for part in text.split("|"):
        lead = len(part) - len(part.lstrip())
        spans.append((at + lead, at + len(part.rstrip())))
        at += len(part)
    return text.replace("|", ""), spans


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is as follows:\n\n|- one\n", True),
        ("An example::\n|\n    code", True),
        ("次の通り：\r\n|一", True),
        ("key:\n|  value: 1", True),
        ("Mind: |it is one line", False),
        ("Not here.\n\n|- one", False),
        ("| a", False),
    ],
)
def test_a_line_that_ends_with_a_colon_announces(text: str, expected: bool) -> None:
    whole, (first, second) = parts(text)
    assert announces(whole, first, second) is expected


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("One sentence |is here.| Another |follows.", "paragraph", [True, False, True, False]),
        ("One sentence\n|is wrapped.\n\n|Another", "list", [True, False, False]),
        (LONG.replace("and on, to", "and on, |to"), "paragraph", [False, False]),
        ("a = 1\n|b = 2\n", "code", [False, False]),
        ("# what b is\n|b = 2\n# more\n\n|c\n", "code", [True, True, False]),
        ("@cache\n|def f(): ...\n|#include <a>\n|#[inline]\n|fn", "code", [True, False, False, True, False]),
        ("// a\n|/* b */\n|[Obsolete]\n|int x;|", "code", [True, True, True, False, False]),
        ("a | b", "table", [False, False]),
        ("nothing but one", "paragraph", [False]),
    ],
)
def test_sentences_comments_and_decorators(text: str, kind: str, expected: list[bool]) -> None:
    whole, spans = parts(text)
    document = Document(whole, (Block(kind, 0, len(whole)),))
    assert bound(document, spans, TOKENS, 100) == expected


def test_nothing_is_bound_in_nothing() -> None:
    assert bound(Document(""), [], TOKENS, 100) == []
    assert bound(
        Document("Without blocks a |sentence is one.".replace("|", "")), [(0, 16), (17, 33)], TOKENS, 9
    ) == [
        True,
        False,
    ]
