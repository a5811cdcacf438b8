"""No document is empty in silence: what is missing is said, and what was read stays."""

# ruff: noqa: E501 - markup reads better in one line

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.core.completeness import Shortfall, expected, shortfall, words
from ingestor.model import HOLDER, Blob, Document
from ingestor.parsers.office import tree
from ingestor.parsers.shared.detect import parser_of
from ingestor.registry import find
from tests.parsers.files import P, R, docx, epub, odf, paragraph, pptx, relations, shape, xlsx, zipped

UNDECODED = "9 of its characters are unknown (U+FFFD): save it again with another program, or use OCR"
MISSING = "{} of about {} words were read; report it, with the file if you can"


def read(data: bytes, name: str = "file") -> Document:
    blob = Blob(data, name)
    plugin = find("parsers", parser_of(blob))
    document: Document = plugin.build(plugin.options()).parse(blob)
    return document


@pytest.mark.parametrize(
    ("document", "state", "reason"),
    [
        (Document("words"), None, ""),
        (Document("a b c", raw_words=3), None, ""),
        (Document("word " * 90, raw_words=100), None, ""),
        (Document("word " * 89, raw_words=100), None, "few are missing"),
        (Document("word " * 179, raw_words=200), "incomplete", MISSING.format(179, 200)),
        (Document("word " * 4, raw_words=10), "incomplete", MISSING.format(4, 10)),
        (Document("word " * 40, raw_words=200, left_out=(("footers", 150), ("notes", 10))), None, ""),
        (Document("some text", lost=("2 pages",)), "incomplete", "2 pages"),
        (Document("wor\ufffd " * 9), "incomplete", UNDECODED),
        (Document("words " * 9 + "\ufffd"), None, ""),
        (Document(" \n", raw_words=0), "empty", "it holds no text"),
        (Document(""), "empty", "it holds no text"),
        (Document("", lost=("3 pictures", "a film"), raw_words=9), "empty", "3 pictures; a film"),
        (
            Document("", raw_words=9, left_out=(("notes", 9),)),
            "empty",
            "all its words are left out: notes (9)",
        ),
        (Document("", content_type=HOLDER), None, "an archive, whose members are documents"),
    ],
)
def test_shortfall(document: Document, state: str | None, reason: str) -> None:
    found = shortfall(document)
    assert found == (Shortfall(state, reason) if state else None)  # type: ignore[arg-type]


def test_words_in_any_script_count() -> None:
    assert words("Über 12.5 % -- naïve|cell| 日本 ---") == 6


def table(rows: int) -> str:
    cell = "<w:tc><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc>"
    return f"<w:tbl>{f'<w:tr>{cell}{cell}</w:tr>' * rows}</w:tbl>"


def test_a_reader_that_drops_a_table_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    file = docx(paragraph("Some words before it") + table(20))
    assert shortfall(read(file)) is None
    monkeypatch.setattr(tree._Reader, "_table", lambda self, table: None)
    assert shortfall(read(file)) == Shortfall("incomplete", MISSING.format(4, 44))


UNKNOWN = zipped(
    {
        "_rels/.rels": relations(("r", "officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f'<p:presentation {P} {R}><p:sldIdLst><p:sldId r:id="s"/></p:sldIdLst></p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(("s", "slide", "slide.xml")),
        "ppt/slide.xml": f'<p:sld {P} xmlns:a="urn:a"><p:cSld><p:spTree><p:sp><a:t>Words</a:t></p:sp></p:spTree></p:cSld></p:sld>',
    }
)
HIDDEN = xlsx({"hidden": '<row><c t="inlineStr"><is><t>secret words</t></is></c></row>'})


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (UNKNOWN, "none of its 1 words were found: it is written in a form that is not read"),
        (docx(paragraph("")), "it holds no text"),
        (HIDDEN, r"all its words are left out: hidden sheets \(1\)"),
        (pptx(shape("12 May", placeholder="dt")), "all its words are left out: dates, footers and numbers"),
        (odf("text", "<text:p/>", **{"Pictures/1.png": b""}), r"pictures only \(1\), and OCR would read"),
        (epub({"a.xhtml": "<img src='a.jpg'>"}, ["a.xhtml"], {"a.jpg": ""}), r"pictures only \(1\)"),
        (b"<!doctype html><body><div id=app></div><script>f('words')</script>", "is made by scripts"),
        (b"<!doctype html><body><!-- x -->", "it holds no text"),
        (b"", "it holds no text"),
    ],
)
def test_documents_without_text_say_why(data: bytes, reason: str) -> None:
    document = read(data)
    found = shortfall(document)
    assert found is not None
    assert found.state == "empty"
    assert re.search(reason, found.reason), found.reason


def test_what_named_rules_leave_out_is_counted() -> None:
    page = (
        b"<!doctype html><body><nav>Home News</nav><main><p>" + b"word " * 50 + b"</p><aside>Other pages"
        b"</aside><button>Press</button></main><p>Imprint</p>"
    )
    document = read(page)
    assert dict(document.left_out) == {"navigation and hidden parts": 4, "what surrounds the main content": 1}
    assert (document.raw_words, expected(document)) == (55, 50)


@given(
    st.text(st.characters() | st.sampled_from("ab_ 1-\u00b6\u00aa\u00b2\u2019\u0663\u0301\U00010400\ud800"))
)
def test_words_are_runs_of_letters_digits_and_underscores(text: str) -> None:
    assert words(text) == len(re.findall(r"\w+", text))
