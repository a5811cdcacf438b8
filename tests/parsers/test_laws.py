"""Laws of all parsers, for absurd sources and for any marks, trees, bytes and damage."""

# ruff: noqa: E501 - marks read better in one line

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob
from ingestor.parsers.mail.message import attachments
from ingestor.parsers.mail.message import read as parts_of
from ingestor.parsers.shared.detect import content_type
from ingestor.registry import kinds
from ingestor.text.outline import line_starts, outline
from tests.examples import examples
from tests.parsers.files import docx, odf
from tests.parsers.laws import ESCAPED, is_covered, obeys_laws, parser, parser_of, read

GOLDEN = Path(__file__).parent / "golden"
MARKUP = ("a.rst", "a.adoc", "a.org", "a.tex")
CODE = ("a.py", "a.js", "a.c")
ABSURD: dict[tuple[str, ...], list[str]] = {
    MARKUP: [
        "x " * 20_000, " " * 2000 + "x", ":" * 25_000, "=" * 25_000, "= a" + " " * 25_000 + "b",
        "\\begin{a}" * 6_000, "\\begin{itemize}\n" * 6_000, "\\section{" * 5_000,
        "\\begin{lstlisting}[" * 5_000, "#+begin_src\n" * 6_000, ":drawer:\n" * 6_000, "----\n....\n" * 5_000,
        "[source]\n" * 6_000, "".join(f"{' ' * min(i, 400)}.. note::\n\n" for i in range(1500)),
        "".join(f"{' ' * min(i, 400)}- a\n\n" for i in range(1500)), "=== ===\n" * 5_000, "a\n=\n" * 5_000,
        "x::\n\n" * 5_000, "\n" * 25_000 + " x", ".. a::\n" * 3_000, "`" * 25_000 + "\n" + "=" * 25_000,
        "(" * 2_500 + "{" * 2_500 + "[" * 2_500,
    ],
    CODE: [
        "", "\n \n", "x", "(" * 5_000, "{[" * 1_250, "if x:\n" * 1_250, "a = " + "1 + " * 2_000,
        "x = '" + "a" * 20_000,
    ],
    ("a.md",): [
        ">" * 25_000 + "a", "- " * 10_000 + "a", "> - " * 10_000, "[" * 50_000, "`" * 50_000,
        ("  " * 400 + "- a\n") * 20, "\n".join("  " * i + "- a" for i in range(200)), "<!--\n" * 10_000,
        "<!-- a -->" * 300 + "x", "<a id=x></a>" * 300 + "x", "<!--" * 3000,
    ],
    ("a.html",): [
        "x " * 250_000, "<" * 250_000, "&" * 250_000, "<!--" * 50_000,
        "<svg>" + "<path d='x'/>" * 1_250 + "</svg>text", "<p>x" * 2_500, "<ul>" + "<li>x" * 2_500,
        "<table>" + "<tr><td>x<td>y" * 1_250, "<blockquote>x" * 900 + "y</blockquote>" * 900,
        "<ul><li>x" * 450 + "<pre>x", "<p><b>" * 20,
        "<table><tr><td colspan=999999999>x<td colspan=-1>y<td colspan=²>z<tr><td>",
        f'<img src="data:image/png;base64,{"A" * 500_000}">text',
    ],
    ("a.csv",): [
        'a,"b\n' * 5_000, '"' * 75_000, "x" * 250_000, "," * 75_000, "a," * 12_500 + "\n" + "a\n" * 12_500,
        "a,b\n" * 25_000, "a\0b,c\n1,2", "日本,語\n1,2",
    ],
    ("a.json",): [
        "[" * 50_000, '{"a":' * 12_500, "]" * 50_000, '"' + '\\"' * 50_000, '{"a":{},' * 6_000,
        "{},[]," * 12_500, '"a",' * 25_000,
    ],
    ("a.xml",): [
        "<a>" * 25_000, "</a>" * 25_000, "<a/>" * 25_000, '<a "' * 12_500, "<a '\"" * 12_500, "<!--" * 25_000,
        "<![CDATA[" * 12_500, "<" * 75_000, "<a " + "b='c' " * 12_500, "<!DOCTYPE a [ " * 25_000,
        "<a>" + "QUJD" * 250_000, "<p>" + "a" * 64 + "<p> " * 12_500,
    ],
    ("a.yaml",): [
        "- " * 25_000, "\n".join(f"{' ' * min(i, 900)}a:" for i in range(3000)), "a" + " " * 50_000,
        "a: 1\n" * 12_500, "[" * 25_000, "# c\n" * 12_500, '"\\' * 50_001, '[ "\\n", ' * 50_001,
        "{ ? 'a''b', " * 50_001,
    ],
    ("a.toml",): [
        "[a]\n" * 12_500, "[" + " " * 50_000, "'''" * 50_001, "# c\n" * 12_500 + "[a]", 'a = "\\' * 25_000,
        '"""\\' * 25_000,
    ],
    ("a.ini",): ["[" * 25_000],
    ("a.jsonl",): ["{}\n" * 12_500],
    ("a.fb2",): ["<FictionBook><p '\"" * 12_500],
    ("a.srt",): [
        "", "no cues", "00:00:01,000 --> 00:00:02,000", "<" * 100_000,
        *(f"00:00:01,000 --> 00:00:02,000\n{cue}\n" for cue in (
            "<" * 100_000, "<v " * 25_000, "{\\" * 25_000, "&" * 50_000, "x" * 10**5)),
    ],
    ("a.eml",): [
        "", "no header at all", "Subject: " + "a" * 500_000,
        "Subject: =?utf-8?b?" + "A" * 100_001 + "?=\n\nx",
        "Subject: =?no-such?q?x?= =?utf-8?b?!!?=\nDate: never\nFrom: <<<>>>\nTo: ((((\n\nx",
        "From: " + "(" * 20_000 + "\n\nx", "To: " + "a@b, " * 20_000 + "\n\nx",
        "Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n!!!",
        "Content-Type: multipart/mixed\n\nno boundary", "Subject: S\n\n" + ">" * 100_000,
        "Content-Type: multipart/mixed; boundary=x\n\n--x\n\n--x\n", "Subject: S\n\n" + "> x\n" * 12_500,
    ],
}  # fmt: skip


@pytest.mark.parametrize("names", ABSURD)
def test_absurd_sources_are_covered(names: tuple[str, ...]) -> None:
    for name in names:
        for source in ABSURD[names]:
            is_covered(source, name)


PROGRAM = (
    '"""Doc."""|import os||# Says hello.|@decorated|def hello(größe):|    return 1|class Small:|    x = 1'
    "|    def f(self): ...|\x0c|\r|é"
)
MARKS = {  # of sound sources, separated by |
    "a.html": "<p>|</p>|<div>|</div>|<b>|<a>|<ul>|<ol>|<li>|<table>|<tr>|<td>|<td colspan=3>|<th>|<pre>|</pre>"
    "|<code>|<h1>|<h2>|</h2>|<h6>|<blockquote>|</blockquote>|<br>|<dl>|<dt>|<dd>|<nav>|</nav>|<main>|</main>|<svg>"
    "|</svg>|<span>|</span>|text| |\n|\x0c|&nbsp;|&#0;|&#xd800;|\u2028|日本",
    "a.csv": 'a|"|,|;|\t|\n|\r|1| |\u2028',
    "a.rtf": r"\par |{|}|\'e9|\u-10000?|\bin9 |a|\cell|\row|\*|\field|{\footnote |{\stylesheet{\s1 heading 1;}}"
    r"|\s1 |\fldinst |{\listtext 1\tab}|\ansicpg932 |\'8a|{\info{\title |\v |\super 2|\shptxt |\intbl |"
    r"\u-556?|\tab ",
    "a.eml": "Subject: a\n|From: x <y@z>\n|Content-Type: multipart/mixed; boundary=b\n|--b\n|--b--\n|\n|> q\n"
    "|Content-Type: text/html\n|Content-Type: message/rfc822\n|Content-Transfer-Encoding: base64\n|<p>x\n"
    "|Content-Disposition: attachment; filename=a\n|Date: 1\n| folded\n|=?utf-8?q?=ff?=\n|\udcff\n",
    "a.py": PROGRAM.replace("|", "\n|"),
    "a.txt": " |\t|word|  indented|x \x0c|\x0c|\u2028|日本|\u3000|a\x0bb|\n|\r\n|\r",
} | dict.fromkeys(
    ["a.json", "a.jsonl", "a.xml", "a.yaml", "a.toml", "a.ini"],
    '"a"|:|,|{|}|[|]|<a>|</a>|<b/>|<!--|-->|a: |- |  |\n|\r\n|#|[t]|\'\'\'|\\|"|u00e4|n|&#10;|&amp;'
    "|<![CDATA[|]]>|'|" + "text " * 80 + "|---\n|\x0c|日本",
)  # fmt: skip
LINES = {  # names of golden files whose lines are put together
    **{f"a.{end}": f"study.{end}" for end in ("rst", "adoc", "org", "tex")},
    "a.srt": "talk.srt", "a.vtt": "talk.vtt",
}  # fmt: skip
MARKS |= {
    name: "|".join(line.replace("|", "") + end for line in (GOLDEN / file).read_text("utf-8").split("\n")
                   for end in ("\n", "\r\n", "\r"))
    + "|\t|  x|\x0c|日本"
    for name, file in LINES.items()
}  # fmt: skip
ODD = ("a.html", "a.rtf", "a.eml")  # whose marks lose words


@pytest.mark.parametrize("name", MARKS)
@examples(200)
@given(st.data())
def test_laws_hold_for_any_marks(name: str, data: st.DataObject) -> None:
    source = "".join(data.draw(st.lists(st.sampled_from(MARKS[name].split("|")), max_size=40)))
    if name == "a.rtf":
        source = "{\\rtf1 " + source
    if name == "a.eml":  # it is refused if a part decodes to control codes
        blob = Blob(source.encode("utf-8", "surrogateescape"), name)
        obeys_laws(parser_of(blob), blob)
        list(attachments(parts_of(blob.data)))
        return
    document = read(source, name, sound=name not in ODD)
    if name not in (*ODD, "a.csv", "a.srt", "a.vtt"):
        assert len(outline(document).lines) == len(line_starts(source)), "lines are the file's"
        assert document.text == source or ESCAPED.search(source)


@pytest.mark.parametrize("kind", sorted({*kinds("parsers")} - {"code", "image"}))
@examples(100)
@given(data=st.binary(max_size=300))
def test_laws_hold_for_any_bytes(kind: str, data: bytes) -> None:
    obeys_laws(parser(kind), Blob(data, "a"), sound=False)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=100))
def test_laws_hold_for_any_text_of_code(source: str) -> None:
    obeys_laws(parser("code"), Blob(source.encode(), "a.py", "text/x-python"))


DAMAGED = [GOLDEN / name for name in ("outline.pdf", "harbours.doc", "harbours.ppt", "prices.xls")]


@pytest.mark.parametrize("file", DAMAGED, ids=lambda file: str(file.suffix))
@examples(200)
@given(at=st.integers(0, 15_000), damage=st.binary(min_size=1, max_size=9))
def test_laws_hold_for_any_damage(file: Path, at: int, damage: bytes) -> None:
    data = bytearray(file.read_bytes())
    at %= len(data)
    data[at : at + len(damage)] = damage
    blob = Blob(bytes(data), file.name, content_type(Blob(file.read_bytes(), "a")))
    obeys_laws(parser("pdf" if file.suffix == ".pdf" else "office97"), blob, sound=False)


WORD = "w:p w:r w:t w:tbl w:tr w:tc w:pPr w:numPr w:hyperlink w:sdt w:txbxContent w:br w:altChunk"
OPEN = (
    "text:p text:h text:span text:list text:list-item text:section text:number text:s table:table"
    " table:table-row table:table-cell draw:frame draw:text-box draw:g draw:page office:annotation"
)


def trees(names: str) -> st.SearchStrategy[str]:
    return st.recursive(
        st.text("ab |\n#\ufdd4\ufddf", max_size=5),
        lambda inner: st.tuples(st.sampled_from(names.split()), st.lists(inner, max_size=4).map("".join)).map(
            lambda made: f"<{made[0]}>{made[1]}</{made[0]}>"
        ),
        max_leaves=20,
    )


@examples(150)
@given(trees(WORD), trees(OPEN), st.sampled_from(["text", "presentation", "spreadsheet"]))
def test_laws_hold_for_any_tree(word: str, tree: str, kind: str) -> None:
    obeys_laws(parser("docx"), Blob(docx(f"<w:p>{word}</w:p>{word}"), "a.docx"), sound=False)
    obeys_laws(parser("odf"), Blob(odf(kind, tree), "a.odt"), sound=False)
