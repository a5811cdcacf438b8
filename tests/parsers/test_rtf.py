"""Rich Text Format: laws, hidden text, facts about the document. The rest is in the golden files."""

# ruff: noqa: E501 - markup reads better in one line

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.rtf import PLUGIN
from ingestor.registry import Options
from tests.examples import examples
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(Options())


def read(source: bytes) -> Document:
    document = obeys_laws(PARSER, Blob(rb"{\rtf1\ansi\ansicpg1252 " + source + b"}", "a.rtf"))
    assert document is not None
    return document


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (rb"Caf\'e9 \u26085?\par Second {\b bold} line\par", ["Café 日", "Second bold line"]),
        (rb"First\par {\f0\*\cs7 second\par} third", ["First", "second", "third"]),
        (rb"shown{\v  hidden {\b bold\v0  shown} \u960?\'e9} again", ["shown shown again"]),
        (rb"\v hidden\plain  shown\par", ["shown"]),
        (rb"shown{\deleted  gone} end", ["shown end"]),
        (rb"10{\super 3} and 1{\super st}", ["10³ and 1st"]),
        (rb"{\*\unheardof gone}kept {\*\footnote x}", ["kept [^1]", "[^1]: x"]),
        (rb"before \bin5 {{{{{after", ["before after"]),
        (rb"{\stylesheet{\s3 Title;}{\s4\sbasedon5 Mine;}{\s5\outlinelevel2 Other;}}\pard\s3 Top\par"
         rb"\pard\s4 Sub\par", ["Top", "Sub"]),
    ],
)  # fmt: skip
def test_text_is_what_word_shows(source: bytes, expected: list[str]) -> None:
    assert texts(read(source)) == expected


WORDS = (
    rb"\par |{|}|\'e9|\u-10000?|\bin9 |a|\cell|\row|\*|\field|{\footnote |{\stylesheet{\s1 heading 1;}}|\s1 "
    rb"|\fldinst |{\listtext 1\tab}|\ansicpg932 |\'8a|{\info{\title |\v |\super 2|\shptxt |\intbl |\u-556?|\tab "
).split(b"|")


@examples(200)
@given(st.lists(st.sampled_from(WORDS)).map(b"".join))
def test_laws_hold_for_any_rtf(source: bytes) -> None:
    obeys_laws(PARSER, Blob(b"{\\rtf1 " + source, "a.rtf"), sound=False)
