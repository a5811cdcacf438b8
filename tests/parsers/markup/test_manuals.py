"""Flat OpenDocument, FictionBook, DocBook, manual pages and MediaWiki are read as themselves."""

# ruff: noqa: E501 - markup reads better in one line

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.core.completeness import shortfall
from ingestor.model import Blob, Document
from ingestor.parsers.books.declarations import without_declarations
from ingestor.parsers.shared.detect import parser_of
from ingestor.registry import find
from tests.parsers.files import ODF
from tests.parsers.laws import obeys_laws, texts


def parse(source: str, name: str = "file", kind: str | None = None) -> Document:
    blob = Blob(source.encode(), name)
    plugin = find("parsers", parser_of(blob))
    assert kind is None or plugin.kind == kind
    document = obeys_laws(plugin.build(plugin.options()), blob)
    assert document is not None
    return document


def blocks(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, text) for block, text in zip(document.blocks, texts(document), strict=True)]


FLAT = (
    f'<?xml version="1.0"?><office:document {ODF} office:mimetype="application/vnd.oasis.opendocument.{{}}">'
    "<office:meta><dc:title>A study</dc:title></office:meta><office:styles><style:style style:name='Q' "
    "style:parent-style-name='Quotations'/></office:styles><office:body><office:{}>{}</office:{}></office:body></office:document>"
)


def test_flat_odf() -> None:
    body = (
        "<text:h>Head</text:h><text:p text:style-name='Q'>Quoted</text:p><text:p><draw:frame><draw:image>"
        "<office:binary-data>aGVsbG8gd29ybGQ=</office:binary-data></draw:image></draw:frame></text:p>"
    )
    document = parse(FLAT.format("text", "text", body, "text"), "a.fodt", "odf")
    assert blocks(document) == [("heading", "Head"), ("quote", "Quoted")]
    assert (document.title, document.raw_words) == ("A study", 2)
    cells = (
        "<table:table table:name='S'><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>"
    )
    sheet = FLAT.format(
        "spreadsheet", "spreadsheet", f"{cells}</table:table-row></table:table>", "spreadsheet"
    )
    assert blocks(parse(sheet, "a.xml", "odf")) == [("heading", "S"), ("paragraph", "a")]


def test_a_chart_in_flat_odf_does_not_make_it_incomplete() -> None:
    """Its numbers' places and its maker are words of the file that nobody reads."""
    place = (
        "<draw:g><svg:desc>Sheet.B1:Sheet.B20 of the sheet that stands before this one</svg:desc></draw:g>"
    )
    cell = f"<table:table-cell><text:p>7</text:p>{place * 3}</table:table-cell>"
    chart = (
        f"<draw:frame {CHART}><draw:object><office:document><office:meta><meta:generator>An Office"
        " of a company</meta:generator></office:meta><office:body><office:chart><chart:chart>"
        f"<table:table><table:table-row>{cell}{cell}</table:table-row></table:table>"
        "</chart:chart></office:chart></office:body></office:document></draw:object></draw:frame>"
    )
    document = parse(FLAT.format("text", "text", f"<text:p>Words.</text:p>{chart}", "text"), "a.fodt", "odf")
    assert "| 7 | 7 |" in document.text
    assert shortfall(document) is None


CHART = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{full}:1.0"'
    for name, full in (("chart", "chart"), ("svg", "svg-compatible"))
)
FB2 = """<?xml version="1.0" encoding="UTF-8"?>
<FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0" xmlns:l="http://www.w3.org/1999/xlink"><description>
<title-info><genre>prose</genre><author><first-name>Ada</first-name><last-name>Bo</last-name></author>
<book-title>The harbour</book-title><lang>en</lang></title-info></description>
<body><title><p>The harbour</p></title><section><title><p>Chapter</p><p>one</p></title><epigraph><p>A motto.</p></epigraph>
<p>Ships <emphasis>come</emphasis> in.</p><section><title><p>Night</p></title><p>Dark.</p>
<poem><stanza><v>A verse,</v><v>another.</v></stanza></poem><cite><p>Said.</p></cite>
<table><tr><th>Port</th><th>Tons</th></tr><tr><td>Oslo</td><td>12</td></tr></table></section></section></body>
<binary id="i.png" content-type="image/png">aGVsbG8gd29ybGQ=</binary></FictionBook>"""


def test_fictionbook() -> None:
    document = parse(FB2, "a.fb2", "fb2")
    assert blocks(document) == [
        ("heading", "The harbour"), ("heading", "Chapter one"), ("quote", "A motto."), ("paragraph", "Ships come in."),
        ("heading", "Night"), ("paragraph", "Dark."), ("paragraph", "A verse,"), ("paragraph", "another."),
        ("quote", "Said."), ("table", "| Port | Tons |\n| --- | --- |\n| Oslo | 12 |"),
    ]  # fmt: skip
    assert [block.level for block in document.blocks if block.kind == "heading"] == [1, 2, 3]
    assert (document.title, document.language, dict(document.extra)) == (
        "The harbour",
        "en",
        {"author": "Ada Bo"},
    )


DOCBOOK = """<?xml version="1.0"?>
<!DOCTYPE book PUBLIC "-//OASIS//DTD DocBook XML V4.5//EN" "http://www.oasis-open.org/docbook/xml/4.5/docbookx.dtd">
<book lang="en"><bookinfo><title>Handbook</title><author><firstname>Ada</firstname><surname>Bo</surname></author>
<pubdate>2024</pubdate></bookinfo><chapter id="c"><title>Harbours &amp; ships</title>
<para>Some <emphasis>words</emphasis><footnote><para>A note.</para></footnote> here<indexterm><primary>x</primary></indexterm>.
<itemizedlist><listitem><para>one</para></listitem><listitem><para>two</para><orderedlist><listitem><para>deep</para>
</listitem></orderedlist></listitem></itemizedlist></para>
<section><title>Code</title><programlisting>if x:
    y()</programlisting><variablelist><varlistentry><term>-v</term><listitem><para>verbose</para></listitem></varlistentry>
</variablelist><table><title>Tons</title><tgroup cols="2"><thead><row><entry>Port</entry><entry>Tons</entry></row></thead>
<tbody><row><entry>Oslo</entry><entry>12</entry></row></tbody></tgroup></table>
<mediaobject><imageobject><imagedata fileref="a.png"/></imageobject><textobject><phrase>A crane</phrase></textobject>
</mediaobject></section></chapter></book>"""


def test_docbook() -> None:
    document = parse(DOCBOOK, "a.xml", "docbook")
    assert blocks(document) == [
        ("heading", "Handbook"), ("heading", "Harbours & ships"), ("paragraph", "Some words[^1] here."),
        ("footnote", "[^1]: A note."), ("list", "- one\n- two\n  1. deep"), ("heading", "Code"),
        ("code", "if x:\n    y()"), ("list", "- -v verbose"), ("paragraph", "Tons"),
        ("table", "| Port | Tons |\n| --- | --- |\n| Oslo | 12 |"), ("figure", "A crane"),
    ]  # fmt: skip
    assert [block.level for block in document.blocks if block.kind == "heading"] == [1, 2, 3]
    assert document.blocks[-1].figure == "a.png"
    assert (document.title, document.language) == ("Handbook", "en")
    assert dict(document.extra) == {"author": "Ada Bo", "date": "2024"}


def test_books_that_are_not_well_formed_are_read_as_plain_xml() -> None:
    document = parse(DOCBOOK.replace("</book>", "</bok>"), "a.xml", "docbook")
    found = shortfall(document)
    assert "Harbours &amp; ships" in document.text
    assert found is not None and found.reason.startswith("its structure: is damaged")


MANUAL = """<book xmlns="http://docbook.org/ns/docbook"><chapter><title>Work</title>
<para>Choose <menuchoice><guimenu>Tools</guimenu> <guimenuitem>Spelling</guimenuitem></menuchoice> or press
<keycombo><keycap>Ctrl</keycap><keycap>S</keycap></keycombo>.</para>
<variablelist><title>Commands</title><varlistentry><term><cmdsynopsis><command>width</command><arg>N</arg></cmdsynopsis>
</term><listitem><para>Sets it:<screen>width 8</screen></para><informaltable><tgroup cols="2"><tbody><row>
<entry>8</entry><entry>wide</entry></row></tbody></tgroup></informaltable></listitem></varlistentry></variablelist>
<figure><title>The desk</title><mediaobject><imageobject><imagedata fileref="desk.png"/></imageobject></mediaobject>
</figure><screenshot><screeninfo>made by hand</screeninfo><mediaobject><imageobject><imagedata fileref="b.png"/>
</imageobject><caption><para>Its bar</para></caption></mediaobject></screenshot>
<example><title>A call</title><para>Say so.</para></example></chapter></book>"""


def test_docbook_keeps_what_stands_inside_lists_and_under_pictures() -> None:
    document = parse(MANUAL, "a.dbk")
    assert blocks(document) == [
        ("heading", "Work"), ("paragraph", "Choose Tools > Spelling or press Ctrl+S."), ("paragraph", "Commands"),
        ("list", "- width N Sets it: width 8"), ("table", "| 8 | wide |\n| --- | --- |"), ("figure", "The desk"),
        ("figure", "Its bar"), ("paragraph", "A call"), ("paragraph", "Say so."),
    ]  # fmt: skip
    assert [block.figure for block in document.blocks if block.kind == "figure"] == ["desk.png", "b.png"]
    assert shortfall(document) is None


SUBSET = """.dtd" [<!-- ]> --> <?x ]> ?>
  <!ENTITY kapp 'Harbour&#160;Desk'> <!ENTITY nested '&kapp;&kapp;'> <!ENTITY % more SYSTEM "more.ent"> %more;
  <!ENTITY secret SYSTEM "file:///etc/passwd"> <!ENTITY tag '<para>x</para>'> <!ATTLIST para x CDATA "]>"> ] >"""


def test_books_that_declare_entities_keep_their_structure() -> None:
    said = "Some &kapp; &nested; &secret; &tag; &unknown; &eacute;&nbsp;&amp; <![CDATA[&kapp;]]>"
    book = DOCBOOK.replace('.dtd">', SUBSET).replace("Some <emphasis>words</emphasis>", said)
    document = parse(book, "a.xml", "docbook")
    assert [block.title for block in document.blocks if block.kind == "heading"] == [
        "Handbook", "Harbours & ships", "Code",
    ]  # fmt: skip
    assert "Some Harbour Desk &nested; &secret; &tag; &unknown; é & &kapp;[^1] here." in document.text
    assert "root:" not in document.text and shortfall(document) is None


def test_entities_cannot_make_a_book_much_larger() -> None:
    book = DOCBOOK.replace('.dtd">', f".dtd\" [<!ENTITY x '{'harbour ' * 25}'>]>")
    large = book.replace("Some ", "&x; " * 20_000)
    assert len(parse(large, "a.xml", "docbook").text) < 3 * len(large)


@pytest.mark.parametrize(
    "part", ["<?a?>", "<!--x>", "<!ENTITY x 'y'", "&x", "<![CDATA[", "%x", "]>", "'", '"']
)
def test_hostile_declarations_take_time_in_proportion(part: str) -> None:
    for before in ("", "<!DOCTYPE book", "<!DOCTYPE book [", "<book>"):
        begun = time.process_time()
        without_declarations((before + part * 200_000).encode())
        assert time.process_time() - begun < 2


MAN = r""".\" A comment
.TH ZIP 1 "2024-01-02" "x" "y"
.SH NAME
zip \- pack \fIfiles\fR \(em quickly
.SH "SEE ALSO"
.PP
First line
goes on with
.BR tar (1),
.I gzip
and \*(lqquotes\*(rq.
.TP
.B \-v
Be verbose\. Very.
.IP \(bu 2
A point
.SS Sub
.nf
code  here
  more
.fi
.TS
tab(@);
l l.
Port@Tons
Oslo@12
.TE
"""


def test_manual_pages() -> None:
    document = parse(MAN, "zip.1", "man")
    assert blocks(document) == [
        ("heading", "NAME"), ("paragraph", "zip - pack files — quickly"), ("heading", "SEE ALSO"),
        ("paragraph", "First line goes on with tar(1), gzip and “quotes”."), ("definition", "-v"),
        ("paragraph", "Be verbose. Very."), ("list", "- A point"), ("heading", "Sub"), ("code", "code  here\n  more"),
        ("table", "| Port | Tons |\n| --- | --- |\n| Oslo | 12 |"),
    ]  # fmt: skip
    assert document.title == "ZIP(1)"
    mdoc = ".Dd today\n.Dt LS 1\n.Os\n.Sh NAME\n.Nm ls\n.Nd list files\n.Sh SYNOPSIS\n.Nm\n.Op Fl l\n.Ar file ...\n"
    assert blocks(parse(mdoc, "ls.1", "man"))[-1] == ("paragraph", "ls [-l] file ...")
    ends = ".Sh EXIT STATUS\n.Ex -std\n.Pp\n.Rv -std open close\n.Sh AUTHORS\n.An -nosplit\n.An Ada\n"
    assert [text for _, text in blocks(parse(mdoc + ends, "ls.1", "man"))[-4:]] == [
        "The ls utility exits 0 on success, and >0 if an error occurs.",
        "The open() and close() functions return the value 0 if successful; otherwise the value -1 is returned"
        " and the global variable errno is set to indicate the error.",
        "AUTHORS",
        "Ada",
    ]
    assert parser_of(Blob(b"TH 1\nwords", "a.1")) == "text"


WIKI = """'''Harbours''' are [[port|ports]] of [https://example.org the sea].<ref>A note.</ref> {{Infobox|x={{y}}}}
== History ==
* one
* two
** deep
# first
[[File:a.png|thumb|200px|A [[crane]] at work]]
{| class="wikitable"
! Port !! Tons
|-
| align="left" | Oslo || 12
|}
<pre>code ''here''</pre>
<!-- hidden -->
=== More ===
Last &amp; least.
[[Category:Ports]]
"""
READ = [
    ("paragraph", "Harbours are ports of [the sea](https://example.org).[^1]"), ("footnote", "[^1]: A note."),
    ("heading", "History"), ("list", "- one\n- two\n  - deep\n1. first"), ("figure", "A crane at work"),
    ("table", "| Port | Tons |\n| --- | --- |\n| Oslo | 12 |"), ("code", "code ''here''"), ("heading", "More"),
    ("paragraph", "Last & least."),
]  # fmt: skip


def test_mediawiki() -> None:
    document = parse(WIKI, "a.wiki", "mediawiki")
    assert blocks(document) == READ
    assert [block.level for block in document.blocks if block.kind == "heading"] == [1, 2]
    page = "<page><title>Harbour</title><revision><text>{}</text></revision></page>"
    text = WIKI.replace("&", "&amp;").replace("<", "&lt;")
    export = f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/">{page.format(text)}</mediawiki>'
    whole = parse(export, "dump.xml", "mediawiki")
    assert blocks(whole) == [("heading", "Harbour"), *READ]
    assert whole.title == "Harbour"


@given(st.lists(st.sampled_from(
    [".TP\n", ".TS\n", ".TE\n", ".nf\n", ".IP \"", "\\f", "\\(", "a", "\n", "[[", "]]", "|", "{{", "}}", "{|\n", "'''", "<ref>", "==",
     "<pre>", " ", "*", ".It Fl x\n", ".SH\n", "\\[u1F600]", "[[File:a|"]
)).map("".join), st.sampled_from(["a.man", "a.wiki"]))  # fmt: skip
def test_laws_hold_for_any_markup(source: str, name: str) -> None:
    plugin = find("parsers", parser_of(Blob(source.encode(), name)))
    obeys_laws(plugin.build(plugin.options()), Blob(source.encode(), name), sound=False)


@pytest.mark.parametrize(
    "source", ["[[File:a" + "|b[[c]]" * 3000, "<ref>" * 20_000, "{{" * 50_000, "{{a" * 5000 + "}}" * 5000]
)
def test_absurd_wikis_are_read(source: str) -> None:
    parse(source, "a.wiki", "mediawiki")


def test_a_list_in_a_list_in_a_list_is_read_once() -> None:
    inner = "<itemizedlist><listitem><para>c</para></listitem></itemizedlist>"
    middle = f"<itemizedlist><listitem><para>b</para>{inner}</listitem></itemizedlist>"
    source = f"<article><itemizedlist><listitem><para>a</para>{middle}</listitem></itemizedlist></article>"
    assert blocks(parse(source, "a.dbk", "docbook")) == [("list", "- a\n  - b\n    - c")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("= a =", [("heading", "a")]),
        ("== a =", [("heading", "= a")]),
        ("===", [("heading", "=")]),
        ("==", [("paragraph", "==")]),
        ("= a", [("paragraph", "= a")]),
        ("<pre>a</pre> <PRE >b</PRE>", [("code", "a"), ("code", "b")]),
        ("a<pre>b", [("paragraph", "ab")]),
        ("a<ref>b</ref><ref name=c/>.", [("paragraph", "a[^1]."), ("footnote", "[^1]: b")]),
    ],
)
def test_a_line_of_a_wiki(line: str, expected: list[tuple[str, str]]) -> None:
    assert blocks(parse(line, "a.wiki", "mediawiki")) == expected


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.wiki", "<pre>" * 100_000),
        ("a.wiki", "<ref>a" * 100_000),
        ("a.wiki", "=" + " " * 200_000 + "x" + " =" * 50_000 + " y"),
        ("a.man", ".TH A 1\n" + "\\f[" * 100_000),
        (
            "a.dbk",
            "<article>" + "<itemizedlist><listitem>" * 99 + "</listitem></itemizedlist>" * 99 + "</article>",
        ),
    ],
    ids=["code", "notes", "heading", "fonts", "lists"],
)
def test_time_is_linear(name: str, source: str) -> None:
    plugin = find("parsers", parser_of(Blob(source.encode(), name)))
    begun = time.process_time()
    plugin.build(plugin.options()).parse(Blob(source.encode(), name))
    assert time.process_time() - begun < 10
