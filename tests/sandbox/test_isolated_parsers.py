"""Every parser that is isolated works behind the walls, and every document comes back whole."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from ingestor.app.parts import parser
from ingestor.config.models import Choice
from ingestor.core.document_json import decode, encode, pack
from ingestor.model import Blob, Block, Document
from ingestor.registry import Options, Plugin, find, kinds
from ingestor.sandbox.pool import Defect, Isolated, IsolatedIfLarge, Isolation, pack_options
from ingestor.sandbox.process import Limits
from tests.bad_parser import BadParser
from tests.parsers.files import docx, epub, odf, paragraph, pdf, pptx, shape, xlsx

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
places = st.integers(0)
optional = st.none() | texts
levels = st.integers(0, 6)
blocks = st.builds(Block, texts, places, places, levels, title=optional, page=st.none() | places)
extras = st.lists(st.tuples(texts, scalars)).map(tuple)


@given(st.builds(Document, texts, st.lists(blocks).map(tuple), texts, optional, optional, extras))
def test_any_document_survives_the_pipe(document: Document) -> None:
    assert decode(json.loads(pack(encode(document)))) == document


SAMPLES = {
    "pdf": ("a.pdf", pdf([[(50, 700, 24, "Head"), (50, 650, 10, "It says little.")]])),
    "docx": ("a.docx", docx(paragraph("Text of it."))),
    "pptx": ("a.pptx", pptx("", shape("Title", placeholder="title") + shape("What it says."))),
    "xlsx": ("a.xlsx", xlsx({"Sums": "<row><c><v>1</v></c><c><v>2</v></c></row>" * 2})),
    "odf": ("a.odt", odf("text", "<text:h>Head</text:h><text:p>Text.</text:p>")),
    "epub": ("a.epub", epub({"a.xhtml": "<h1>Chapter</h1><p>Once.</p>"}, ["a.xhtml"])),
    "rtf": ("a.rtf", rb"{\rtf1\ansi Some text.\par}"),
    "html": ("a.html", b"<h1>Head</h1><p>Text and <code>code</code>.</p>"),
    "mail": ("a.eml", b"From: a@b.c\nSubject: Hello\nDate: Tue, 2 Jan 2024 03:04:05 +0000\n\nText.\n"),
    "code": ("a.rs", b"fn main() {\n    let a = 1;\n}\n"),
    "markdown": ("a.md", b"# Head\n\nText with `code`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"),
    "rst": ("a.rst", b"Head\n====\n\nText.\n"),
    "asciidoc": ("a.adoc", b"= Head\n\nText.\n"),
    "org": ("a.org", b"* Head\nText.\n"),
    "latex": ("a.tex", b"\\section{Head}\nText.\n"),
    "csv": ("a.csv", b"name,size\na,1\nb,2\n"),
    "json": ("a.json", b'{"a": {"b": 1}}\n'),
    "xml": ("a.xml", b"<a><b>Text.</b></a>"),
    "yaml": ("a.yaml", b"a:\n  b: 1\n"),
    "toml": ("a.toml", b"[a]\nb = 1\n"),
    "notebook": ("a.ipynb", b'{"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "# A"}]}'),
    "subtitles": ("a.srt", b"1\n00:00:01,000 --> 00:00:02,000\nText.\n"),
    "office97": ("a.doc", (Path(__file__).parents[1] / "parsers/golden/harbours.doc").read_bytes()),
}
NEEDS_AN_EXTRA = {"image"}  # OCR; tests/parsers/pdf/test_ocr_extra.py installs it


def test_every_isolated_parser_works_behind_the_walls() -> None:
    """What they import late and open (grammars, fonts, native libraries) is to be had there."""
    isolated = {kind for kind in kinds("parsers") if getattr(find("parsers", kind).build, "isolated", True)}
    assert isolated == SAMPLES.keys() | NEEDS_AN_EXTRA
    isolation = Isolation(Limits(processes=1))
    for kind, (name, data) in SAMPLES.items():
        plugin, blob = find("parsers", kind), Blob(data, name)
        here = plugin.build(plugin.options()).parse(blob)
        assert isolation.parse(kind, plugin.options(), blob) == here
    isolation.close()


def test_large_texts_are_parsed_elsewhere_and_small_ones_here() -> None:
    plugin = find("parsers", "markdown")
    isolation = Isolation(Limits(processes=1))
    parser = IsolatedIfLarge(
        plugin.build(plugin.options()), Isolated("markdown", plugin.options(), isolation)
    )
    small, large = Blob(b"# Head\n\nText\n", "a.md"), Blob(b"# Head\n\n" + b"Text\n" * 20_001, "a.md")
    assert parser.parse(small) == plugin.build(plugin.options()).parse(small)
    assert not isolation._running
    assert parser.parse(large) == plugin.build(plugin.options()).parse(large)
    assert isolation._running
    isolation.close()


def test_parser_without_clear_wish_is_confined() -> None:
    wishes: list[tuple[dict[str, object], type]] = [({"isolated": False}, BadParser)]
    wishes += [({"isolated": "large"}, IsolatedIfLarge), ({}, Isolated)]
    wishes += [({"isolated": wish}, Isolated) for wish in (True, None, 0, "", "never")]
    for wish, kind in wishes:
        plugin = Plugin("bad", 1, Options, type("Third", (BadParser,), wish))
        assert isinstance(parser(Choice(plugin, Options()), Isolation(Limits())), kind), wish
    built = Plugin("bad", 1, Options, lambda options: BadParser(options))
    assert isinstance(parser(Choice(built, Options()), Isolation(Limits())), Isolated)


class Locked(Options):
    password: SecretStr
    folder: Path
    pages: frozenset[int] = frozenset({1})


def test_options_of_a_confined_parser_keep_their_secrets() -> None:
    options = Locked(password=SecretStr("s3cret"), folder=Path("/a"))
    assert Locked.model_validate_json(pack_options(options)) == options


@pytest.mark.usefixtures("bad_parser")
def test_confined_parser_that_needs_more_names_its_remedy() -> None:
    isolation = Isolation(Limits(processes=1))
    for deed in (b"open", b"run", b"ask"):
        with pytest.raises(Defect) as defect:
            isolation.parse("bad", Options(), Blob(deed, "a.bad"))
        assert str(defect.value).endswith(
            "no parser has files, network or programs, unless its class sets `isolated = False`"
        )
    isolation.close()
