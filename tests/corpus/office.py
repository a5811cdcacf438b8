"""Office documents, OpenDocument, EPUB and RTF: bombs, loops, depths, wrong sizes, other files."""

from functools import partial

from tests.corpus.archives import cut, spoilt
from tests.corpus.case import Case, Make, files
from tests.hostile import LAUGHS, SPY
from tests.parsers.files import docx, epub, odf, paragraph, pptx, relations, shape, xlsx, zipped

_WORD, _SHEET, _ODF = "word/document.xml", "xl/workbook.xml", "content.xml"
_TEXT = "application/vnd.oasis.opendocument.text"


def _sound() -> bytes:
    return docx("".join(paragraph(f"Paragraph {n} of a sound document") for n in range(200)))


def _part(name: str, content: str) -> bytes:
    first = {"mimetype": _TEXT} if name == _ODF else {}
    return zipped({**first, name: content})


def _deep(tag: str, depth: int = 100_000) -> str:
    return f"<{tag}>" * depth + f"</{tag}>" * depth


def _book(opf: str, chapter: str = "<p>text</p>") -> bytes:
    return epub({"a.xhtml": chapter}, ["a.xhtml"], {"OEBPS/book.opf": opf})


def _package(manifest: str, spine: str) -> str:
    return f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{manifest}</manifest><spine>{spine}</spine></package>'


def _cells(columns: str, rows: str) -> str:
    return (
        f'<table:table><table:table-row table:number-rows-repeated="{rows}"><table:table-cell '
        f'table:number-columns-repeated="{columns}"><text:p>word</text:p></table:table-cell></table:table-row></table:table>'
    )


def _based(count: int, last: str) -> str:
    links = [(f"S{n}", f"S{n + 1}") for n in range(count)] + [(f"S{count}", last)]
    return "".join(f'<w:style w:styleId="{a}"><w:basedOn w:val="{b}"/></w:style>' for a, b in links)


_WIDE = (
    '<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="999999999"/></w:tcPr>'
    + paragraph("cell")
    + "</w:tc></w:tr></w:tbl>"
)
_OUT = relations(
    ("r", "officeDocument", "../../../../../../etc/passwd"), ("s", "officeDocument", "file:///etc/passwd")
)
_HUGE = (
    '<row r="1"><c r="A1" t="inlineStr"><is><t>a</t></is></c></row>'
    '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
)
_MADE: dict[str, Make] = {
    **{
        f"!laughs{end}": partial(_part, part, f"{LAUGHS}<x>&b;</x>")
        for end, part in {".docx": _WORD, ".xlsx": _SHEET, ".odt": _ODF}.items()
    },
    **{
        f"!spy{end}": partial(_part, part, f"{SPY}<x>&b;</x>")
        for end, part in {".docx": _WORD, ".xlsx": _SHEET, ".odt": _ODF}.items()
    },
    "!spy.epub": lambda: _book(f"{SPY}<package>&b;</package>"),
    "!laughs.epub": lambda: epub(
        {"a.xhtml": "<p>&b;</p>"}, ["a.xhtml"], {"META-INF/container.xml": f"{LAUGHS}<x>&b;</x>"}
    ),
    "!deep.docx": lambda: docx(_deep("w:p")),
    "!deep-tables.docx": lambda: docx("<w:tbl><w:tr><w:tc>" * 5000 + "</w:tc></w:tr></w:tbl>" * 5000),
    "!deep.pptx": lambda: pptx(_deep("p:grpSp")),
    "!deep.xlsx": lambda: xlsx({"a": _deep("row")}),
    "!deep.odt": lambda: odf("text", _deep("text:list")),
    "!deep.epub": lambda: epub({"a.xhtml": _deep("div")}, ["a.xhtml"]),
    "crowd.docx": lambda: docx("<w:p/>" * 3_000_000),
    "words.docx": lambda: docx(paragraph("word " * 8_000_000)),
    "attribute.docx": lambda: docx(f'<w:p w:x="{"a" * 40_000_000}"/>'),
    "wide.docx": lambda: docx(_WIDE),
    "based-on-itself.docx": lambda: docx(paragraph("text", "S0"), styles=_based(3, "S0")),
    "based-deep.docx": lambda: docx(paragraph("text", "S0"), styles=_based(30_000, "none")),
    "!outside.docx": lambda: zipped({"_rels/.rels": _OUT, _WORD: "<x/>"}),
    "template.docx": lambda: docx(paragraph("text"), {"l": "file:///etc/passwd", "m": "http://127.0.0.1:1/"}),
    "notes-loop.docx": lambda: docx(
        paragraph('x</w:t><w:footnoteReference w:id="1"/><w:t>'),
        footnotes='<w:footnote w:id="1"><w:p><w:r><w:footnoteReference w:id="1"/></w:r></w:p></w:footnote>',
    ),
    "many-slides.pptx": lambda: pptx(*[shape("a slide")] * 5000),
    "runs.pptx": lambda: pptx(shape(*["line"] * 300_000)),
    "corners.xlsx": lambda: xlsx({"a": _HUGE}),
    "no-reference.xlsx": lambda: xlsx(
        {"a": '<row r="-5"><c r="ZZZZZZZZ99999999999" t="s"><v>-99999999999</v></c></row>'}
    ),
    "strings.xlsx": lambda: xlsx(
        {"a": '<row r="1"><c r="A1" t="s"><v>9</v></c></row>'}, ["word"] * 1_000_000
    ),
    "repeats.xlsx": lambda: xlsx({"a": '<row r="1"><c t="s"><v>0</v></c></row>' * 2000}, ["word " * 20_000]),
    "formats.xlsx": lambda: xlsx(
        {"a": '<row r="1"><c r="A1" s="0"><v>1e308</v></c></row>'}, formats=["[" * 200_000]
    ),
    "many-sheets.xlsx": lambda: xlsx({f"s{n}": "" for n in range(5000)}),
    "many-rows.xlsx": lambda: xlsx({"a": "<row><c><v>1</v></c></row>" * 1_000_000}),
    "repeated.ods": lambda: odf("spreadsheet", _cells("16384", "1048576")),
    "odd-numbers.ods": lambda: odf("spreadsheet", _cells("-1", "9" * 5000)),
    "spaces.odt": lambda: odf("text", '<text:p>a<text:s text:c="2000000000"/>b</text:p>'),
    "levels.odt": lambda: odf("text", f'<text:h text:outline-level="{"9" * 5000}">a</text:h>'),
    "type-only.odt": lambda: zipped({"mimetype": _TEXT}),
    "lost-chapters.epub": lambda: epub({}, ["a.xhtml", "b.xhtml"]),
    "outside.epub": lambda: _book(
        _package(
            '<item id="a" href="../../../../etc/passwd" media-type="application/xhtml+xml"/>',
            '<itemref idref="a"/>',
        )
    ),
    "again.epub": lambda: epub({"a.xhtml": "<p>" + "word " * 20_000 + "</p>"}, ["a.xhtml"] * 20_000),
    "groups.rtf": lambda: rb"{\rtf1 " + b"{" * 2_000_000,
    "closed.rtf": lambda: rb"{\rtf1 text" + b"}" * 2_000_000,
    "bin.rtf": lambda: rb"{\rtf1 \bin2147483647 text}",
    "minus-bin.rtf": lambda: rb"{\rtf1 " + rb"\bin-5 text" * 10_000 + b"}",
    "letters.rtf": lambda: rb"{\rtf1 " + rb"\u-99999999999? \u55296? \'zz " * 50_000 + b"}",
    "long-word.rtf": lambda: rb"{\rtf1 " + b"\\" + b"a" * 5_000_000 + b" text}",
    "number.rtf": lambda: rb"{\rtf1 \fs" + b"9" * 1_000_000 + b" text}",
    "rows.rtf": lambda: rb"{\rtf1 " + rb"\trowd\cellx1 a\cell\row " * 200_000 + b"}",
    "nested-tables.rtf": lambda: (
        rb"{\rtf1 " + b"".join(rb"\intbl\itap%d a\nestcell" % n for n in range(20_000)) + b"}"
    ),
    "picture.rtf": lambda: rb"{\rtf1 {\pict " + b"00" * 10_000_000 + b"} text}",
    **{f"cut-{n}.docx": partial(cut, _sound, n) for n in range(2)},
    **{f"spoilt-{n}.docx": partial(spoilt, _sound, n) for n in range(3)},
}


def cases() -> list[Case]:
    return files(_MADE)
