"""Pages: modes, encodings, tangles. What else is found is in the golden files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.html.page import words
from ingestor.parsers.html.parser import PLUGIN, HtmlOptions
from ingestor.ports import BadDocument
from tests.examples import examples
from tests.parsers.laws import obeys_laws, texts

MAIN = PLUGIN.build(HtmlOptions())
FULL = PLUGIN.build(HtmlOptions(mode="full"))
PAGE = (Path(__file__).parent / "golden/study.html").read_text("utf-8")


def parse(source: str | bytes, parser: object = MAIN, declared: str | None = None) -> Document:
    data = source.encode() if isinstance(source, str) else source
    document: Document = parser.parse(Blob(data, "a.html", declared))  # type: ignore[attr-defined]
    return document


def kinds(document: Document) -> list[tuple[str, str]]:
    return [(b.kind, t) for b, t in zip(document.blocks, texts(document), strict=True)]


def test_full_mode_takes_what_surrounds_the_content() -> None:
    assert ("paragraph", "Home | About") in kinds(parse(PAGE, FULL))
    assert ("paragraph", "Imprint") in kinds(parse(PAGE, FULL))
    assert "hidden" not in parse(PAGE, FULL).text


LONG = "word " * 50


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (f"<p>out</p><main><p>{LONG}</p></main>", LONG),
        (f"<p>out</p><div role=main>{LONG}</div>", LONG),
        (f"<p>out</p><article>{LONG}</article>", LONG),
        ("<p>out</p><main>tiny</main>", "out\n\ntiny"),
        (f"<article>{LONG}</article><article>two</article>", f"{LONG.strip()}\n\ntwo"),
        ("<div class='related x'>around</div><p>in</p>", "in"),
        ("<div role=navigation>around</div><p>in</p>", "in"),
        ("<aside>only an aside</aside>", "only an aside"),  # better than nothing
    ],
)
def test_main_content_is_found(body: str, text: str) -> None:
    assert parse(f"<body>{body}").text == text.strip()


FALLBACK = 'class="mwe-math-fallback-image-inline" aria-hidden=true'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("10<sup>6</sup>, 10<sup>\u22123</sup> m<sup>2</sup>, 1<sup>st</sup>", "10⁶, 10⁻³ m², 1st"),
        ("claims<a href='#n1' class=footnote-ref><sup>1</sup></a>.<sup>[2]</sup>", "claims¹.[2]"),
        ("claims<a epub:type=noteref href='#n'>12</a> <a role=doc-noteref>[2]</a>", "claims¹² [2]"),
        ("<ol><li>A note.<a href='#r1' class=footnote-back>\u21a9</a></ol>", "1. A note."),
        ("Let <math alttext='G'><mi>G</mi></math> be", "Let G be"),
        ("<math><mi>e</mi><annotation encoding='application/x-tex'>e^x</annotation></math>", "e^x"),
        ("so <math><mi>y</mi></math>.", "so y."),
        ("<math><mfrac><mn>1</mn><mn>2</mn></mfrac><mo>+</mo><msqrt><mi>x</mi></msqrt></math>", "1/2+√(x)"),
        ("<math><msup><mi>a</mi><mn>2</mn></msup><!-- c --><mo>=</mo><mi>b</mi></math>", "a²=b"),
        ("<math>" + "<mrow>" * 400 + "<mn>7</mn>" + "</mrow>" * 400 + "</math>", "7"),
        (f"E<i hidden><math></math></i><img {FALLBACK} alt='{{\\displaystyle x}}'>.", "Ex."),
        ("<p>See <img alt='a  red pump'>below<img alt=''><img alt='b.png'>", "See a red pump below"),
        ("<img alt=gone hidden>in", "in"),
        ("<table><tr><td>km<sup>2</sup><td><img alt=yes><tr><td>3<td>4</table>",
         "| km² | yes |\n| --- | --- |\n| 3 | 4 |"),
    ],
)  # fmt: skip
def test_formulas_pictures_and_raised_numbers_are_read(body: str, text: str) -> None:
    assert parse(body).text == text


def test_nested_raised_text_is_read() -> None:
    assert parse("<p>" + "<sup>a" * 500).text == "a" * 500


LINKS = """<h2><a href="https://a.org/">A head</a></h2>
<p>See <a href="https://a.org/x">the <b>site</b></a>, <a href="b.html">b</a>, <a href="https://c.org">c.org</a>,
<a href="https://d.org"><img alt=""></a><a href="https://e.org"><div>block</div></a></p>
<ul><li><a href="mailto:ada@x.org">Ada</a></ul>"""


def test_links_keep_their_addresses_if_configured() -> None:
    document = parse(LINKS, PLUGIN.build(HtmlOptions(links=True)))
    shown = ["A head", "See [the site](https://a.org/x), b, c.org,", "[block](https://e.org)"]
    shown += ["- [Ada](mailto:ada@x.org)"]
    assert texts(document) == shown
    assert texts(parse(LINKS)) == ["A head", "See the site, b, c.org,", "block", "- Ada"]


@pytest.mark.parametrize(
    ("data", "declared"),
    [
        ("<meta charset=utf-8>Größe".encode(), None),
        ("Größe".encode("utf-8-sig"), None),
        ("<meta charset=iso-8859-1><p>Größe".encode("latin-1"), None),
        (
            '<meta http-equiv=Content-Type content="text/html; charset=windows-1252"><p>Größe'.encode(
                "cp1252"
            ),
            None,
        ),
        ("<p>Größe".encode("latin-1"), "text/html; charset=ISO-8859-1"),
        ("<p>Größe".encode(), "text/html; charset=ISO-8859-1"),  # what is UTF-8 is not misread
        ("<p>Größe".encode("utf-16"), None),
    ],
)
def test_page_is_decoded_by_its_declared_encoding(data: bytes, declared: str | None) -> None:
    assert parse(data, declared=declared).text == "Größe"


def test_declared_legacy_encodings_are_believed() -> None:
    russian = "Съешь"
    assert parse(f"<meta charset=koi8-r><p>{russian}".encode("koi8-r")).text == russian
    assert parse("<meta charset=gb2312><p>中文鎔".encode("gbk")).text == "中文鎔"
    assert parse(b"<meta charset=zip><p>caf\xe9").text == "café"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("<div>" * 300_000, "nested"),
        ("<div/>" * 300_000, "nested"),
        ("<ul><li>" * 20_000, "nested"),
        ("".join(f"<font size={i}>" for i in range(1000)) + "<p>x" * 20_000, "never closed"),
        ("<p " + " ".join(f"a{i}" for i in range(100_000)) + ">", "attributes"),
    ],
)
def test_tangled_arguments_are_refused_at_once(source: str, reason: str) -> None:
    with pytest.raises(BadDocument, match=reason):
        parse(source)


@pytest.mark.parametrize(
    "source",
    [
        "x " * 2_000_000,
        "<" * 1_000_000,
        "&" * 1_000_000,
        "<!--" * 50_000,
        "<svg>" + "<path d='x'/>" * 1_250 + "</svg>text",
        "<p>x" * 5_000,
        "<ul>" + "<li>x" * 5_000,
        "<table>" + "<tr><td>x<td>y" * 2_500,
        "<blockquote>x" * 900 + "y</blockquote>" * 900,
        "<ul><li>x" * 450 + "<pre>x",
        "<p><b>" * 20,
        "<table><tr><td colspan=999999999>x<td colspan=-1>y<td colspan=²>z<tr><td>",
        f'<img src="data:image/png;base64,{"A" * 1_000_000}">text',
    ],
)
def test_absurd_pages_are_read(source: str) -> None:
    obeys_laws(MAIN, Blob(source.encode(), "a.html"), sound=False)


TAGS = words("p div b i a ul ol li table tr td th pre code h1 h2 h6 blockquote br dl dt dd nav main svg span")
tags = st.sampled_from([f"<{tag}>" for tag in sorted(TAGS)] + [f"</{tag}>" for tag in sorted(TAGS)])
odd = st.sampled_from(
    ["text", " ", "\n", "\x0c", "&nbsp;", "&#0;", "&#xd800;", "\u2028", "<td colspan=3>", "日本"]
)
sources = st.lists(tags | odd, max_size=40).map("".join)


@examples(200)
@given(sources, st.booleans())
def test_laws_hold_for_any_markup(source: str, main: bool) -> None:
    obeys_laws(MAIN if main else FULL, Blob(source.encode(), "a.html"), sound=False)


@given(st.binary(max_size=300))
def test_laws_hold_for_any_bytes(data: bytes) -> None:
    obeys_laws(MAIN, Blob(data, "a.html"), sound=False)


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
