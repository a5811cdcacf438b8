"""Subtitles that are absurd or damaged. Sound ones are among the golden files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.subtitles import PLUGIN
from ingestor.registry import Options
from tests.parsers.laws import obeys_laws

PARSER = PLUGIN.build(Options())
SRT, VTT = ((Path(__file__).parent / f"golden/talk.{kind}").read_text("utf-8") for kind in ("srt", "vtt"))


def parse(source: str, name: str = "a.srt") -> Document:
    document = obeys_laws(PARSER, Blob(source.encode(), name))
    assert document is not None
    return document


@pytest.mark.parametrize("source", ["", "no cues", "00:00:01,000 --> 00:00:02,000", "<" * 100_000])
def test_subtitles_without_cues_have_no_text(source: str) -> None:
    assert parse(source).text == ""


@pytest.mark.parametrize("cue", ["<" * 200_000, "<v " * 50_000, "{\\" * 50_000, "&" * 100_000, "x" * 10**6])
def test_absurd_cues_are_covered(cue: str) -> None:
    parse(f"00:00:01,000 --> 00:00:02,000\n{cue}\n")


@given(st.lists(st.sampled_from([*SRT.split("\n"), *VTT.split("\n"), "\r", "\x0c"])).map("\n".join))
def test_laws_hold_for_any_lines(source: str) -> None:
    parse(source)
