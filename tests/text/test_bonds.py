"""What belongs to the text after it."""

from ingestor.model import Block, Document
from ingestor.text.bonds import announces, bonds, leads, settle
from ingestor.text.spans import Span
from tests.chunkers.laws import TOKENS

LONG = "This sentence goes on, " + "and on, " * 60 + "to its end."


def parts(text: str) -> tuple[str, list[Span]]:
    """A text and its parts, which "|" divides."""
    spans, at = [], 0
    for part in text.split("|"):
        lead = len(part) - len(part.lstrip())
        spans.append((at + lead, at + len(part.rstrip())))
        at += len(part)
    return text.replace("|", ""), spans


def test_line_that_ends_with_a_colon_announces() -> None:
    for text, expected in [
        ("It is as follows:\n\n|- one\n", True), ("An example::\n|\n    code", True),
        ("次の通り：\r\n|一", True), ("key:\n|  value: 1", True), ("Mind: |it is one line", False),
        ("Not here.\n\n|- one", False), ("| a", False),
    ]:  # fmt: skip
        whole, (first, second) = parts(text)
        assert announces(whole, first, second) is expected


def test_bonds_keep_sentences_comments_and_decorators() -> None:
    for text, kind, expected in [
        ("One sentence |is here.| Another |follows.", "paragraph", [True, False, True, False]),
        ("One sentence\n|is wrapped.\n\n|Another", "list", [True, False, False]),
        (LONG.replace("and on, to", "and on, |to"), "paragraph", [False, False]),
        ("a = 1\n|b = 2\n", "code", [False, False]),
        ("# what b is\n|b = 2\n# more\n\n|c\n", "code", [True, True, False]),
        ("@cache\n|def f(): ...\n|#include <a>\n|#[inline]\n|fn", "code", [True, False, False, True, False]),
        ("// a\n|/* b */\n|[Obsolete]\n|int x;|", "code", [True, True, True, False, False]),
        ("a | b", "table", [False, False]),
        ("nothing but one", "paragraph", [False]),
    ]:
        whole, spans = parts(text)
        document = Document(whole, (Block(kind, 0, len(whole)),))
        assert bonds(document, spans, TOKENS, 100) == expected


def test_empty_text_has_no_bonds() -> None:
    assert bonds(Document(""), [], TOKENS, 100) == []
    assert bonds(
        Document("Without blocks a |sentence is one.".replace("|", "")), [(0, 16), (17, 33)], TOKENS, 9
    ) == [
        True,
        False,
    ]


BLOCKS = [
    ("heading", "Results"), ("paragraph", "It rained. The following table shows sales."),
    ("paragraph", "Sales by region"), ("paragraph", "(in millions)"),
    ("table", "2022 2021\nNorth 3 4\nSouth 5 6"), ("paragraph", "Nothing follows from this."),
    ("definition", "--password"), ("paragraph", "The word. It has two parts:"), ("list", "- one\n- two"),
]  # fmt: skip


def blocks() -> Document:
    text, found = "", list[Block]()
    for kind, written in BLOCKS:
        header = 1 if kind == "table" else None
        found.append(Block(kind, len(text), len(text) + len(written), header_rows=header))
        text += f"{written}\n\n"
    return Document(text, tuple(found))


def test_leads_are_headings_terms_introductions_captions_units_and_headers() -> None:
    document = blocks()
    assert [document.text[start:end] for start, end in leads(document)] == [
        "Results", "The following table shows sales.", "Sales by region", "(in millions)", "2022 2021",
        "--password", "It has two parts:",
    ]  # fmt: skip


def test_lead_at_a_chunks_end_moves_to_the_next_chunk() -> None:
    document = blocks()
    text = document.text
    cuts = [text.index(words) + len(words) for words in ("sales.", "2022 2021", "--password", "parts:")]
    found = settle(document, zip([0, *cuts], [*cuts, len(text)], strict=True), TOKENS, None, 60)
    assert [text[start:end].split("\n")[0] for start, end in found] == [
        "Results", "The following table shows sales.", "--password", "It has two parts:",
    ]  # fmt: skip


def test_chunk_that_gets_too_large_by_a_lead_is_divided_between_rows() -> None:
    rows = "\n".join(f"row {number} {number}" for number in range(12))
    text = f"Before.\n\nHeading\n\n{rows}"
    begin = text.index("row 0")
    document = Document(text, (Block("heading", 9, 16, level=1), Block("table", begin, len(text))))
    most = TOKENS.count(rows)
    found = settle(document, [(0, 16), (begin, len(text))], TOKENS, None, most)
    assert text[slice(*found[0])] == "Before."
    assert text[slice(*found[1])].startswith("Heading\n\nrow 0")
    assert [text[start:end].split("\n")[0] for start, end in found[2:]] == ["row 6 6"]
    assert settle(document, [(0, 16), (begin, len(text))], TOKENS, None, most + 9)[1] == (9, len(text))


def test_headings_without_text_are_settled_in_linear_time() -> None:
    text, each = "a\n" * 10_000, 500
    blocks = tuple(Block("heading", at, at + 1, 1, "a") for at in range(0, len(text), 2))
    spans = [(at, at + each - 1) for at in range(0, len(text), each)]
    assert settle(Document(text, blocks), spans, TOKENS, None, TOKENS.count(text[:each])) == spans
