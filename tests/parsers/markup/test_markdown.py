import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ingestor.model import Blob, Block, Document
from ingestor.parsers.markup.markdown import PLUGIN
from ingestor.ports import BadDocument
from ingestor.registry import Options
from tests.examples import examples
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(Options())


def parse(source: str) -> Document:
    document: Document = PARSER.parse(Blob(source.encode(), "a.md"))
    return document


def test_title_is_the_front_matters_or_the_first_headings() -> None:
    for source, title in [
        ("# First\n\n# Second", "First"), ("## Only a second level", None),
        ("---\ntitle: Why: a colon\ndate: [\n---\n# Heading", "Why: a colon"),
        ("---\ntitle: ~\n---\n# Heading", "Heading"), ("---\n# comment\n'title': 2024-01\n...\n", "2024-01"),
        ("---\ntitle: [[nested]]\n---\ntext", None), ("---\r\ntitle: T\r\n---", "T"),
        ("#\n\n# Named", "Named"), ("# " + "[" * 5000, "[" * 300),
    ]:  # fmt: skip
        assert parse(source).title == title


@pytest.mark.parametrize("source", ["---\n\nprose\n---\n", "---\nprose: yes\n", "text\n---\nkey: x\n---\n"])
def test_rule_is_no_front_matter(source: str) -> None:
    assert "front_matter" not in [block.kind for block in parse(source).blocks]


def test_code_knows_its_language() -> None:
    for info, language in [
        ("python", "python"), ("{r, echo=FALSE}", "r"), ("C++", "c++"), ("js{1,3}", "js"), ("", None),
        ("?", None),
    ]:  # fmt: skip
        (block,) = parse(f"~~~ {info}\nx\n~~~").blocks
        assert block.language == language


def test_lines_are_those_of_the_source_not_those_of_splitlines() -> None:
    source = "a \u2028 b\x0c\x0b\x1c\x85c\n\n# Title\r\n\r\nend\0"
    document = parse(source)
    assert texts(document) == ["a \u2028 b\x0c\x0b\x1c\x85c", "# Title", "end\0"]


def test_list_is_one_block_however_deep_it_is() -> None:
    nested = "\n".join("  " * i + "- a" for i in range(80))
    document = parse(f"{nested}\n\nafter\n\nthe end")
    assert [b.kind for b in document.blocks] == ["list", "paragraph", "paragraph"]


def test_titles_are_as_they_are_shown() -> None:
    for source, title in [
        ("# A *b* `c` [d](e) &amp; ![f](g)<br> #", "A b c d & f"), ("# A {#b .c}", "A"), ("# `{#b}`", "{#b}"),
        ("A\n*b*\n===", "A b"), ("# [a]\n\n[a]: b", "a"),
    ]:  # fmt: skip
        assert parse(source).title == title


def test_headings_are_those_that_sites_show() -> None:
    for source, titles in [
        ('<div>\n<h1 align="center">\n<b>A</b> &amp; B\n</h1>\nx\n</div>\n\n<h2>C</h2>', ["A & B", "C"]),
        ("<h1>A</h1>\r\n<p>x</p>\r\n", ["A"]), ("<pre>\n<h1>A</h1>\n</pre>", []), ("<h1><img></h1>", []),
        ("$$\na\n=\nb\n$$\n\n\\[\n# x\n\\]\n\n# A\n", ["A"]), ("$$\n\n# A\n", ["A"]),
        ("{% highlight sh %}\n# x\n\ny\n{% endhighlight %}\n\n# A", ["A"]),
        ("{% highlight sh %}\n\n# A", ["A"]),
        ("```\n{% highlight sh %}\n{% endhighlight %}\n```\n\n# A", ["A"]),
    ]:  # fmt: skip
        assert [block.title for block in parse(source).blocks if block.kind == "heading"] == titles, source


def test_admonition_of_myst_is_prose() -> None:
    blocks = parse("```{note} Title\nWords.\n```\n\n```{code-block} c\nx\n```\n\n```{r}\nx\n```").blocks
    assert [block.kind for block in blocks] == ["paragraph", "code", "code"]


def test_code_of_jekyll_knows_its_language() -> None:
    (block,) = parse("{% highlight ruby linenos %}\n# x\n\ny\n{% endhighlight %}\n").blocks
    assert (block.kind, block.language) == ("code", "ruby")


def test_panic_of_the_library_is_the_documents_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):  # as PyO3's, which nothing else derives from
        pass

    def panics(*given: object, **options: object) -> None:
        raise PanicException("index out of bounds")

    monkeypatch.setattr("pyromark.events_with_range", panics)
    with pytest.raises(BadDocument, match="out of bounds"):
        parse("a")


MARKS = ["# h", "## 2 h", "===", "---", "- ", "1. ", "> ", "```", "~~~", "    ", "\t", "|a|b|", "|-|-|", "  "]
MARKS += ["<div>", "<!--", "-->", "*e*", "[a]", "[a]: b", "key: v", "text", "日本"]
SPACES = ["\x0c", "\u2028", "\xa0", "\x85"]
newlines = st.sampled_from(["\n", "\r\n", "\r"])


def sources(marks: list[str]) -> st.SearchStrategy[str]:
    line = st.lists(st.sampled_from(marks), max_size=4).map("".join)
    return st.lists(st.tuples(line, newlines).map("".join)).map("".join)


@examples(300)
@given(sources(MARKS + SPACES))
def test_laws_hold_for_any_markdown(source: str) -> None:
    obeys_laws(PARSER, Blob(source.encode(), "a.md"))


def test_tab_may_stand_behind_marks_at_the_end_of_a_line() -> None:
    blocks = parse("```\na\t\n```\t\n# h #\t\nb\n").blocks
    assert [(block.kind, block.title) for block in blocks] == [
        ("code", None), ("heading", "h"), ("paragraph", None),
    ]  # fmt: skip


@examples(200)
@example("```\n```\t\n# h\n")
@example("> ~~~\n> ~~~ \t \r\n\n# h #\t\n")
@given(sources([{"- ": "- x", "1. ": "1. x", "[a]: b": "x"}.get(mark, mark) for mark in MARKS]))
def test_blocks_are_those_that_markdown_it_sees(source: str) -> None:
    """They differ below an empty item, and where === follows the definition of a link."""
    text = f"x\n\n{source}"
    tokens = [t for t in MarkdownIt("commonmark").enable("table").parse(text) if t.level == 0 and t.map]
    for kind, ending in [("heading", "heading_open"), ("list", "list_open"), ("quote", "quote_open")]:
        expected = [t.map[0] for t in tokens if t.type.endswith(ending) and t.map]
        assert [_line(text, block) for block in parse(text).blocks if block.kind == kind] == expected


@given(st.text(max_size=100))
def test_laws_hold_for_any_front_matter(source: str) -> None:
    obeys_laws(PARSER, Blob(f"---\ntitle: {source}\n---\n# x".encode("utf-8", "replace"), "a.md"))


def _line(text: str, block: Block) -> int:
    before = text[: block.start].replace("\r\n", "\n").replace("\r", "\n")
    return before.count("\n")
