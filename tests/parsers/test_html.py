"""Pages: modes, encodings, tangles. What else is found is in the golden files."""

from pathlib import Path

import pytest

from ingestor.model import Blob, Document
from tests.parsers.files import epub
from tests.parsers.laws import kinds, parser, read, texts


def parse(source: str, **options: object) -> Document:
    return read(source, "a.html", sound=False, **options)


def test_full_mode_takes_what_surrounds_the_content() -> None:
    page = parse((Path(__file__).parent / "golden/study.html").read_text("utf-8"), mode="full")
    assert {("paragraph", "Home | About"), ("paragraph", "Imprint")} <= {*kinds(page)}
    assert "hidden" not in page.text


LONG = "word " * 50


def test_main_content_is_found() -> None:
    for body, text in [
        (f"<p>out</p><main><p>{LONG}</p></main>", LONG),
        (f"<p>out</p><div role=main>{LONG}</div>", LONG),
        (f"<p>out</p><article>{LONG}</article>", LONG),
        ("<p>out</p><main>tiny</main>", "out\n\ntiny"),
        (f"<article>{LONG}</article><article>two</article>", f"{LONG.strip()}\n\ntwo"),
        ("<div class='related x'>around</div><p>in</p>", "in"),
        ("<div role=navigation>around</div><p>in</p>", "in"),
        ("<aside>only an aside</aside>", "only an aside"),  # better than nothing
    ]:
        assert parse(f"<body>{body}").text == text.strip()


def test_nested_raised_text_is_read() -> None:
    assert parse("<p>" + "<sup>a" * 500).text == "a" * 500


LINKS = """<h2><a href="https://a.org/">A head</a></h2>
<p>See <a href="https://a.org/x">the <b>site</b></a>, <a href="b.html">b</a>, <a href="https://c.org">c.org</a>,
<a href="https://d.org"><img alt=""></a><a href="https://e.org"><div>block</div></a></p>
<ul><li><a href="mailto:ada@x.org">Ada</a></ul>"""


def test_links_keep_their_addresses_if_configured() -> None:
    document = parse(LINKS, links=True)
    shown = ["A head", "See [the site](https://a.org/x), b, c.org,", "[block](https://e.org)"]
    shown += ["- [Ada](mailto:ada@x.org)"]
    assert texts(document) == shown
    assert texts(parse(LINKS)) == ["A head", "See the site, b, c.org,", "block", "- Ada"]


def test_page_is_decoded_by_its_declared_encoding() -> None:
    for data, declared, text in [
        *((data, None, "Größe") for data in (
            "<meta charset=utf-8>Größe".encode(), "Größe".encode("utf-8-sig"), "<p>Größe".encode("utf-16"),
            "<meta charset=iso-8859-1><p>Größe".encode("latin-1"),
            '<meta http-equiv=Content-Type content="text/html; charset=cp1252">Größe'.encode("cp1252"))),
        ("<p>Größe".encode("latin-1"), "text/html; charset=ISO-8859-1", "Größe"),
        ("<p>Größe".encode(), "text/html; charset=ISO-8859-1", "Größe"),  # what is UTF-8 is not misread
        ("<meta charset=koi8-r><p>Съешь".encode("koi8-r"), None, "Съешь"),
        ("<meta charset=gb2312><p>中文鎔".encode("gbk"), None, "中文鎔"),
        (b"<meta charset=zip><p>caf\xe9", None, "café"),
    ]:  # fmt: skip
        assert parser("html").parse(Blob(data, "a.html", declared)).text == text


AROUND = ("page-header", "site-header", "navbar", "menu", "sidebar", "footer", "related", "breadcrumb")


@pytest.mark.parametrize("content", [f"<main><h2>Part</h2><p>{LONG}</p></main>", f"<p>{LONG}</p>"])
@pytest.mark.parametrize(
    "around",
    [
        *(f"<div class='{name}'>{{}}</div>" for name in AROUND),
        *(f"<div id='{name}'>{{}}</div>" for name in AROUND),
        *(f"<{tag}>{{}}</{tag}>" for tag in ("header", "footer", "aside", "section", "hgroup")),
        *(f"<div role={role}>{{}}</div>" for role in ("banner", "complementary", "search")),
    ],
)
def test_heading_1_outside_of_navigation_survives(around: str, content: str) -> None:
    page = around.format("<h1>Harbour</h1><p>Lead</p>")
    assert ("heading", "Harbour") in kinds(parse(f"<body>{page}{content}"))
    assert ("heading", "Harbour") in kinds(parse(f"<body>{content}{page}"))
    assert "Harbour" not in parse(f"<body><nav>{page}</nav>{content}").text


def test_elements_are_read_as_browsers_show_them() -> None:
    number = "<span class=lnt>1</span>"
    for source, blocks in [
        # A button that is a heading's text; other buttons are left out.
        ("<h2><button>Q?</button></h2>", [("heading", "Q?")]),
        ("<button><h3>Q?</h3></button>", [("heading", "Q?")]),
        ("<h2>T <button>Copy</button></h2><button>OK</button>", [("heading", "T")]),
        ("<dl><dt><button>T</button></dt></dl>", [("definition", "T")]),
        ("<div role=heading aria-level=3>T</div>x", [("heading", "T"), ("paragraph", "x")]),
        ("<div role=row><span role=cell>a</span><span role=cell>b</span></div>", [("paragraph", "a b")]),
        # What is hidden until somebody acts, and what search in the page finds.
        ("a<dialog>b</dialog>", [("paragraph", "a")]),
        ("<dialog open>b</dialog>", [("paragraph", "b")]),
        ("<div hidden=until-found>a</div>", [("paragraph", "a")]),
        ("a<datalist><option>b</datalist>", [("paragraph", "a")]),
        ("<noframes><p>a</noframes>b", [("paragraph", "b")]),
        # Formulas in scripts, if nothing shows them yet.
        ("a<script type=math/tex>x^2</script>b", [("paragraph", "a x^2 b")]),
        ("<span class=MathJax>x²</span><script type=math/tex>x^2</script>", [("paragraph", "x²")]),
        # Marks beside headings.
        ("<h2>T<a>¶</a></h2><h2><a>§</a>C#</h2>", [("heading", "T"), ("heading", "C#")]),
        ("<dl><dt>f(x)<a>🔗</a></dl><h2>U<a>\u200b</a></h2>", [("definition", "f(x)"), ("heading", "U")]),
        ("<h2>T<span class=mw-editsection>[<a>edit</a>]</span></h2>", [("heading", "T")]),
        ("<h2><a>C#</a></h2><h2><a><img alt=L></a></h2>", [("heading", "C#"), ("heading", "L")]),
        ("<ul><li><input type=checkbox checked>a<li><input type=checkbox>b</ul>", [("list", "- ☒ a\n- ☐ b")]),
        ("a<span style='display: block'>b</span>c", [("paragraph", "a b c")]),
        ("<table><tfoot><tr><td>3<thead><tr><th>A<tbody><tr><td>1<tr><td>2</table>", [
            ("table", "| A |\n| --- |\n| 1 |\n| 2 |\n| 3 |")]),
        # Lines of code.
        ("<pre><div>a</div><div>  b</div></pre>", [("code", "a\n  b")]),
        ("<pre><div>a\n</div><div>b\n</div>\n</pre>", [("code", "a\nb")]),
        ("<pre>a<br>b\n\nc</pre>", [("code", "a\nb\n\nc")]),
        (f"<pre>{number}a\n{number}b</pre>", [("code", "a\nb")]),
        ("<table><td class=gutter><pre>1\n2</pre><td><pre>a\nb</pre></table>", [("code", "a\nb")]),
        ("<p class=gutter>a", [("paragraph", "a")]),
        # Lists that are tables.
        ("<table><tr><td>(a)<td><p>b<p>c</table>", [("paragraph", "(a) b"), ("paragraph", "c")]),
        ("<table><tr><td><td>•<td>a<tr><td><td>•<td>b</table>", [("paragraph", "• a"), ("paragraph", "• b")]),
        ("<table><tr><td>1.<td><h2>a</h2></table>", [("paragraph", "1."), ("heading", "a")]),
        ("<table><tr><td>-<td>a<td>b<tr><td>-<td>c<td>d</table>", [
            ("table", "| - | a | b |\n| --- | --- | --- |\n| - | c | d |")]),
    ]:  # fmt: skip
        assert kinds(parse(f"<body>{source}")) == blocks, source


def test_empty_elements_of_xhtml_hold_nothing() -> None:
    head = "<head><title/><style/><meta charset='utf-8'/></head>"
    body = "<script src='x'/><h2/><p>a<br/>b</p><iframe title='1/>2'/>c<a id='d'/> e"
    page = f"<html>{head}<body>{body}</body></html>"
    blocks = [("paragraph", "a\nb"), ("paragraph", "c e")]
    for source, name in [(page, "a.xhtml"), (f"<?xml version='1.0'?>{page}", "a.html")]:
        assert kinds(read(source, name)) == blocks


def test_chapter_of_a_book_is_found_and_read_as_xhtml() -> None:
    book = epub({"a.xhtml": "<title/><p>a</p><audio src='b'/><p>c</p>"}, ["a.xhtml"])
    for file in (book, book.replace(b"OEBPS/a.xhtml", b"OEBPS/A.xhtml")):
        assert kinds(read(file, "a.epub")) == [("paragraph", "a"), ("paragraph", "c")]


def test_title_of_a_drawing_is_not_the_pages() -> None:
    assert parse("<body><svg><title>Icon</title></svg><h1>Page</h1>").title == "Page"
