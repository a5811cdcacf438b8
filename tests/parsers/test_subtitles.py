import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.subtitles import PLUGIN
from ingestor.registry import Options
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(Options())
SRT = """\
1
00:00:01,000 --> 00:00:03,500
<i>Hello</i> there,
{\\an8}friend.

2
00:00:04,000 --> 00:00:05,000
How are you?

3
01:00:10,000 --> 01:00:12,000
After a pause.
"""
VTT = """\
WEBVTT - A talk

NOTE not said

intro
00:01.000 --> 00:03.500 align:start
<v Ann>Hello &amp; <c.loud>welcome</c>

00:04.000 --> 00:05.000
<v.loud Bo>Thanks
"""


def parse(source: str, name: str = "a.srt") -> Document:
    document = obeys_laws(PARSER, Blob(source.encode(), name))
    assert document is not None
    return document


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_srt(newline: str) -> None:
    document = parse(SRT.replace("\n", newline))
    assert texts(document) == ["Hello there, friend.\nHow are you?", "After a pause."]
    assert [block.page_label for block in document.blocks] == ["00:00:01", "01:00:10"]


def test_vtt() -> None:
    document = parse(VTT, "a.vtt")
    assert texts(document) == ["Ann: Hello & welcome\nBo: Thanks"]
    assert document.title == "A talk"
    assert document.content_type == "text/vtt"


def test_a_block_is_at_most_a_minute_long() -> None:
    cues = "\n\n".join(
        f"00:{i // 60:02}:{i % 60:02},0 --> 00:{i // 60:02}:{i % 60:02},900\nword" for i in range(200)
    )
    assert [block.page_label for block in parse(cues).blocks] == [
        "00:00:00",
        "00:01:00",
        "00:02:00",
        "00:03:00",
    ]


@pytest.mark.parametrize("source", ["", "no cues", "00:00:01,000 --> 00:00:02,000", "<" * 100_000])
def test_without_cues_there_is_no_text(source: str) -> None:
    assert parse(source).text == ""


@pytest.mark.parametrize("cue", ["<" * 200_000, "<v " * 50_000, "{\\" * 50_000, "&" * 100_000, "x" * 10**6])
def test_absurd_cues_are_covered(cue: str) -> None:
    parse(f"00:00:01,000 --> 00:00:02,000\n{cue}\n")


@given(st.lists(st.sampled_from([*SRT.split("\n"), *VTT.split("\n"), "\r", "\x0c"])).map("\n".join))
def test_laws_hold_for_any_lines(source: str) -> None:
    parse(source)
