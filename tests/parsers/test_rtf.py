from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.model import Blob
from ingestor.parsers.rtf import PLUGIN
from ingestor.registry import Options
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(Options())
SOURCE = (
    rb"{\rtf1\ansi\ansicpg1252{\info{\title A study}{\author Ada}}{\fonttbl\f0 Arial;}"
    rb"Caf\'e9 \u26085?\par Second {\b bold} line\par"
    rb"\trowd a\cell b\cell\row\trowd 1\cell 2\cell\row\pard end}"
)


def test_paragraphs_and_tables() -> None:
    document = obeys_laws(PARSER, Blob(SOURCE, "a.rtf"))
    assert document is not None
    assert texts(document) == ["Café 日", "Second bold line", "| a | b |\n| --- | --- |\n| 1 | 2 |", "end"]
    assert [block.kind for block in document.blocks] == ["paragraph", "paragraph", "table", "paragraph"]
    assert (document.title, document.extra) == ("A study", (("author", "Ada"),))


words = st.sampled_from(
    [b"\\par ", b"{", b"}", b"\\'e9", b"\\u-10000?", b"\\bin9 ", b"a", b"\\cell", b"\\row", b"\\*"]
)


@settings(max_examples=200)
@given(st.lists(words).map(b"".join))
def test_laws_hold_for_any_rtf(source: bytes) -> None:
    obeys_laws(PARSER, Blob(b"{\\rtf1 " + source, "a.rtf"))
