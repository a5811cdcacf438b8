"""Units of semantic strategies, with the headings before them, and terms that end no chunk."""

from collections.abc import Sequence

import numpy as np
import pytest

from ingestor.chunkers.by_type import build_chunker
from ingestor.chunkers.parts import join_labels, small_pieces, whole_paragraphs, whole_sentences
from ingestor.model import Block, Document, Vectors
from ingestor.ports import Embed
from ingestor.registry import find, kinds
from ingestor.text.bonds import leads
from ingestor.text.spans import Span
from tests.chunkers.golden import sample
from tests.chunkers.laws import TOKENS, fake_embed, lose_nothing, parsed
from tests.examples import every
from tests.parsers.files import docx, paragraph

TEXT = "# A\n\n## B\n\nOne. Two.\n\n# C\n\nThree.\n\n# D"
HEADINGS = ["# A", "## B", "# C", "# D"]


def document(text: str = TEXT) -> Document:
    at = [(text.index(heading), len(heading)) for heading in HEADINGS]
    return Document(text, tuple(Block("heading", start, start + size, 1) for start, size in at))


def shown(spans: list[Span], text: str = TEXT) -> list[str]:
    return [text[start:end] for start, end in spans]


def test_heading_belongs_to_what_follows_it() -> None:
    last = ["# C\n\nThree.", "# D"]
    assert shown(whole_sentences(document(), TOKENS, None)) == ["# A\n\n## B\n\nOne.", "Two.", *last]
    assert shown(whole_paragraphs(document(), TOKENS, 50)) == ["# A\n\n## B\n\nOne. Two.", *last]
    assert shown(small_pieces(document(), TOKENS, 4, 50)) == shown(whole_paragraphs(document(), TOKENS, 50))


def test_heading_without_room_stays_alone() -> None:
    alone = ["# A\n\n## B", "One.", "Two.", "# C\n\nThree.", "# D"]
    assert shown(whole_sentences(document(), TOKENS, 5)) == alone


def test_part_that_only_begins_with_a_heading_leads_nothing() -> None:
    spans = [(0, 15), (16, 20), (22, 32), (35, 38)]
    assert join_labels(document(), spans, TOKENS, None) == spans


@pytest.mark.parametrize("name", ["hydroponics.md", "roots.tex", "lamps.rst"])
def test_small_pieces_cover_text_once(name: str) -> None:
    text = sample(name)
    lose_nothing(text.text, small_pieces(text, TOKENS, 50, 200))


ASKING, ODD = {"llm", "proposition"}, {"kmeans"}  # kmeans does not follow the text
TERMS = 40
FORMATS = {  # file: what stands before, one definition, and after
    "a.html": ("<h1>Options</h1><p>Intro.</p><dl>", "<dt>--term {n}</dt><dd>{body}</dd>", "</dl>"),
    "tp.man": (".TH A 1\n.SH OPTIONS\n", ".TP\n.B --term {n}\n{body}\n", ""),
    "ip.man": (".TH A 1\n.SH OPTIONS\n", '.IP "--term {n}" 4\n{body}\n', ""),
    "it.man": (".Dd x\n.Dt A 1\n.Sh OPTIONS\n.Bl -tag\n", ".It Fl term {n}\n{body}\n", ".El\n"),
    "a.md": ("# Options\n\n", "term {n}\n: {body}\n\n", ""),
    "bold.md": ("# Options\n\n", "**term {n}**\n\n{body}\n\n", ""),
    "code.md": ("# Options\n\n", "`term {n}`\n\n{body}\n\n", ""),
    "a.dbk": (
        "<article><title>Options</title><variablelist>",
        "<varlistentry><term>term {n}</term><listitem><para>{body}</para></listitem></varlistentry>",
        "</variablelist></article>",
    ),
    "a.rst": ("Options\n=======\n\n", "term {n}\n    {body}\n\n", ""),
    "a.adoc": ("= Options\n\n", "term {n}::\n  {body}\n\n", ""),
    "a.org": ("* Options\n\n", "- term {n} :: {body}\n", ""),
    "printed.txt": ("OPTIONS\n\n", "  --term {n}\n         {body}\n\n", ""),
    "tight.txt": ("OPTIONS\n", "  --term {n}\n         {body}\n", ""),
    "a.docx": (
        paragraph("Options"),
        paragraph("--term {n}") + paragraph("{body}", properties='<w:ind w:left="720"/>'),
        "",
    ),
    "crlf.txt": ("OPTIONS\r\n\r\n", "  --term {n}\r\n         {body}\r\n\r\n", ""),
}


def definitions(name: str) -> Document:
    before, definition, after = FORMATS[name]
    bodies = ["Sets the thing to a value that is given here. " * (1 + number % 6) for number in range(TERMS)]
    items = (definition.format(n=number, body=body.strip()) for number, body in enumerate(bodies))
    text = before + "".join(items) + after
    return parsed(docx(text) if name.endswith(".docx") else text, name)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_no_chunk_ends_with_a_term_whose_definition_fits(name: str) -> None:
    read = definitions(name)
    strategies = sorted(set(kinds("chunkers")) - ASKING - ODD)
    for strategy in every(3, strategies[len(name) % 3 :] + strategies[: len(name) % 3]):
        plugin = find("chunkers", strategy)
        chunks = build_chunker(plugin, plugin.options(), TOKENS).chunk(read, fake_embed, None).chunks
        assert len(chunks) > 1
        last = [chunk.text.splitlines()[-1] for chunk in chunks]
        assert [line for line in last if "term" in line and "Sets" not in line] == [], strategy
        assert [line for line in last if line.startswith((".TP", ".IP", ".It", ".SH", ".Sh"))] == [], strategy


def unlike(texts: Sequence[str]) -> Vectors:
    """Return vectors by which short texts resemble no other, and long ones each other."""
    rows = np.zeros((len(texts), 64), np.float32)
    for row, text in zip(rows, texts, strict=True):
        row[0 if len(text) > 20 else 1 + len(text)] = 1
    return rows


@pytest.mark.parametrize("embed", [unlike, fake_embed])
@pytest.mark.parametrize("strategy", sorted(set(kinds("chunkers")) - ASKING))
def test_no_default_makes_chunk_of_one_word(strategy: str, embed: Embed) -> None:
    """A manual's source has lines of one word, and pieces of any length before and after them."""
    words = ("In the old harbour boats of every size lie beside the pier and wait for the tide " * 6).split()
    parts = (
        f"{' '.join(words[: 20 + number])}.\nThe\n.B \\-\\-term{number}\noption is to be had.\n.\n"
        "To\n.B quit\nthe program press\n.B D\n.\n"
        for number in range(60)
    )
    read = Document(
        "".join(parts) + "Press it twice if the boat does not move. D.\n", content_type="text/troff"
    )
    plugin = find("chunkers", strategy)
    chunks = build_chunker(plugin, plugin.options(), TOKENS).chunk(read, embed, None).chunks
    assert [chunk.text for chunk in chunks if TOKENS.count(chunk.text) < 4] == []


def test_lines_that_are_no_terms_lead_to_nothing() -> None:
    for text in [
        "- an item of a list\n    that goes on\n\nWords.",
        "A sentence that ends.\n    An indented line.\n\nWords.",
        "Words\nand more words\n    deeper words",
    ]:
        assert leads(Document(text)) == []
