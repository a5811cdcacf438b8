"""No chunk ends with the term of a definition, whether the format marks terms or only lays them out."""

from collections.abc import Sequence

import numpy as np
import pytest

from ingestor.chunkers.by_type import build_chunker
from ingestor.model import Blob, Document, Vectors
from ingestor.parsers.shared import detect
from ingestor.ports import Embed
from ingestor.registry import find, kinds
from ingestor.text.bonds import leads
from tests.chunkers.laws import TOKENS, fake_embed
from tests.parsers.files import docx, paragraph

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


def document(name: str) -> Document:
    before, definition, after = FORMATS[name]
    bodies = ["Sets the thing to a value that is given here. " * (1 + number % 6) for number in range(TERMS)]
    items = (definition.format(n=number, body=body.strip()) for number, body in enumerate(bodies))
    text = before + "".join(items) + after
    blob = Blob(docx(text) if name.endswith(".docx") else text.encode(), name)
    plugin = find("parsers", detect.parser_kind(detect.content_type(blob)))
    made: Document = plugin.build(plugin.options()).parse(blob)
    return made


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_no_chunk_ends_with_a_term_whose_definition_fits(name: str) -> None:
    read = document(name)
    for strategy in sorted(set(kinds("chunkers")) - ASKING - ODD):
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


@pytest.mark.parametrize(
    "text",
    [
        "- an item of a list\n    that goes on\n\nWords.",
        "A sentence that ends.\n    An indented line.\n\nWords.",
        "Words\nand more words\n    deeper words",
    ],
)
def test_lines_that_are_no_terms_lead_to_nothing(text: str) -> None:
    assert leads(Document(text)) == []
