"""Laws of every chunker, whatever its strategy. The test file of a strategy applies them:

    TestSentence = laws(PLUGIN, {"max_sentences": 3, "overlap": 1}, overlaps=True)

A law that does not hold for a strategy by its nature is switched off by name (``local=False``), with the
reason beside it. A strategy whose documents are not plain text subclasses ``ChunkerLaws``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ingestor.core.metadata_keys import EXTRAS
from ingestor.model import Blob, Block, Chunk, Chunking, Document, Vectors
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.text.spans import Span
from ingestor.text.tokens import Tokens
from tests.examples import examples
from tests.parsers.laws import parser_of

TOKENS = Tokens()
Options = Mapping[str, Any]

FAMILY = "👩‍👩‍👧"
SCOTLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
WORDS = ["a", "word", "Another", "sentence", "pH", "3.14", "e.g.", "naïve", "façade", "1)", "x" * 40]
SCRIPTS = ["水耕栽培", "です", "Привет", "שלום", "مرحبا", "สวัสดี", "한국어", "क्षत्रिय"]
JOINED = [FAMILY, "👍🏽", "🇫🇷🇩🇪", SCOTLAND, "e\u0301", "a\u0323\u0302", "น้ำ", "ນ້ຳ", "ﾊﾞﾙﾌﾞ", "می\u200cخواهم"]
LOOSE = [
    "done \u2714 \ufe0fopen",
    "a \u0301b",
    ". \u0301",
    "。\u0301",
    "\n\u0308x",
]  # marks behind spaces and stops
HEAVY = ["擦拭水泵", "𠮷野家", "🜁🜂", "ꙮ", "𒀀𒀁"]  # letters of several tokens each
ENDS = [". ", "! ", "? ", ", ", "; ", "。", "？", "، ", " (", ") ", "…"]
GAPS = [
    "\n", "\n\n", "\r\n", "\r\n\r\n", " ", "\t", "\n- ", "\n# H\n", "\n\\section{H}\n", "\nH\n=\n", "\u00a0",
    "\u200b", "\x0c",
]  # fmt: skip
MONOTONOUS = [
    "x", "\n", " ", ". ", "字", "字。", FAMILY, "e\u0301", "word ", "(", '"', "# a\n", "| a | b |\n",
]  # fmt: skip

CLUSTERS = regex.compile(r"\X")
NOTHING = ["", " ", "\n\n\t \r\n", "\u2003\u3000"]
CHARACTERS = ["a", "。", "é", "\U0010ffff", "\u0301", "🇫", "\x01", " a\n"]
WHOLES = [FAMILY, "👍🏽", "🇫🇷", "e\u0301", "क्\u200dष", SCOTLAND]  # each is one character to a reader

texts = st.lists(
    st.sampled_from([*WORDS, *SCRIPTS, *JOINED, *LOOSE, *HEAVY, *ENDS, *GAPS, *GAPS]), max_size=120
).map("".join)
PARTS = {  # kinds of blocks, and how one is written around a few words
    "heading": "About {0}",
    "definition": "--{0}",
    "introduction": "Nothing here. The {0} is as follows:",
    "pointer": "It rains. The following table shows {0}.",
    "units": "(in millions of {0})",
    "table": "year {0}\n2021 1,000\n2022 {0} 30\n2023 7",
    "list": "- {0}\n- another {0}",
    "paragraph": "{0} does a thing. Another {0} does not, and that is all.",
}
KINDS = {"introduction": "paragraph", "pointer": "paragraph", "units": "paragraph"}
outlines = st.lists(
    st.tuples(st.sampled_from([*PARTS]), st.sampled_from(WORDS[:5]), st.integers(1, 9)),
    min_size=6,
    max_size=30,
)


def composed(outline: Sequence[tuple[str, str, int]]) -> tuple[Document, list[tuple[int, int, int]]]:
    """A document with blocks; for each lead its start, its end, and the end of its body."""
    text, blocks, names = "", list[Block](), list[str]()
    for name, word, number in outline:
        written = PARTS[name].format(" ".join([word] * number))
        blocks.append(
            Block(
                KINDS.get(name, name), len(text), len(text) + len(written), level=name == "heading",
                title=written if name == "heading" else None, header_rows=1 if name == "table" else None,
            )
        )  # fmt: skip
        names.append(name)
        text += f"{written}\n\n"
    found = list[tuple[int, int, int]]()
    for at in range(len(blocks) - 1, -1, -1):
        block, name = blocks[at], names[at]
        if name == "table":
            header = text.index("\n", block.start)
            found.append((block.start, header, text.index("\n", header + 1)))
        elif leads_to(name, _following(names, at)):
            start = block.start + text[block.start : block.end].rfind(". ") + 1
            chained = found and found[-1][0] == blocks[at + 1].start
            found.append((start, block.end, found[-1][2] if chained else blocks[at + 1].end))
    return Document(text, tuple(blocks)), found


def _following(names: Sequence[str], at: int) -> str:
    """What comes next; for units what comes after all of them, as they may be up to three."""
    return next((other for other in names[at + 1 : at + 4] if (names[at], other) != ("units", "units")), "")


def leads_to(name: str, following: str) -> bool:
    match name:
        case "heading" | "definition":
            return bool(following)
        case "introduction":
            return following not in ("", "heading")
        case "pointer" | "units":
            return following == "table"
    return False


odd_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=80)


# The laws are inherited, so hypothesis sees each of them called on several classes.
searching = examples(60, suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow])


def fake_embed(items: Sequence[str]) -> Vectors:
    """Unit vectors that depend on the text alone, and on every character of it."""
    if not items:
        return np.zeros((0, 64), np.float32)
    raw = np.stack(
        [np.frombuffer(blake2b(item.encode(errors="surrogatepass")).digest(), np.int8) for item in items]
    )
    vectors = raw.astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Noting:
    """An embedding model that notes the texts it is given."""

    def __init__(self, model: Embed = fake_embed) -> None:
        self.model, self.texts = model, list[str]()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        self.texts.extend(texts)
        return self.model(texts)


def parsed(text: str | bytes, name: str = "a.md") -> Document:
    """Return the document that the parser for this name makes of a text."""
    blob = Blob(text if isinstance(text, bytes) else text.encode(), name)
    return parser_of(blob).parse(blob)


def essay(paragraphs: int, start: int = 0) -> str:
    """Prose in paragraphs of two to six sentences, all different."""
    topics = ["basil", "nitrate", "the pump", "morning light", "a slow river", "copper wire", "the committee"]
    verbs = ["needs", "carries", "outlives", "depends on", "resembles", "explains", "interrupts"]
    written = []
    for number in range(start, start + paragraphs):
        sentences = []
        for at in range(2 + number % 5):
            subject, verb = topics[(number + at) % 7], verbs[(number * 3 + at) % 7]
            thing = topics[(at * 2 + 3) % 7]
            sentences.append(f"In case {number}, {subject} {verb} {thing}, or so note {at} says.")
        written.append(" ".join(sentences))
    return "\n\n".join(written)


@contextmanager
def case(text: str) -> Iterator[None]:
    """A failure names the text. Laws loop over small texts: an item of pytest costs more than such a text."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"the text: {text!r}")
        raise


def lose_nothing(text: str, found: Iterable[Span]) -> None:
    """Check that spans are in order and apart, none is empty, and only whitespace lies outside of them."""
    at = 0
    for start, end in found:
        assert at <= start < end
        assert not text[at:start].strip()
        at = end
    assert not text[at:].strip()


def spans(chunk: Chunk) -> tuple[tuple[int, int], ...]:
    return chunk.spans or ((chunk.start, chunk.end),)


def cut(plugin: Plugin, document: str | Document, **options: Any) -> tuple[Chunk, ...]:
    """The chunks of a document with these options and the fake vectors."""
    document = Document(document) if isinstance(document, str) else document
    made: Chunking = plugin.build(plugin.options(**options), TOKENS).chunk(document, fake_embed, None)
    return made.chunks


def refusal(plugin: Plugin, options: Options) -> str:
    """What a user is told who asks for these options."""
    with pytest.raises(ValidationError) as caught:
        plugin.options(**options)
    return str(caught.value)


class ChunkerLaws:
    plugin: ClassVar[Plugin]
    options: ClassVar[Options] = {}  # small sizes, so that small texts have several chunks
    limited: ClassVar[Options] = {"min_tokens": 12, "max_tokens": 40}  # on top of ``options``, for the limits
    # Further options for the same laws: the smallest sizes that a config may name, overlaps of 0 and 1.
    tight: ClassVar[Sequence[Options]] = (
        {"max_tokens": 4}, {"min_tokens": 2, "max_tokens": 5}, {"min_tokens": 4, "max_tokens": 8},
    )  # fmt: skip
    overlaps: ClassVar[bool] = False  # chunks may repeat text of the one before
    local: ClassVar[bool] = True  # an edit at the end leaves the chunks of the first half alone
    contiguous: ClassVar[bool] = True  # chunks are single spans
    leads: ClassVar[bool] = True  # no chunk ends with a heading, term or the like whose body fits
    room: ClassVar[int] = 40  # tokens that a lead and its body may take in any chunk
    joins: ClassVar[bool] = True  # no chunk below the minimum whose neighbour has room for it
    large: ClassVar[int] = 100_000  # code points of the large prose; a twentieth of it of the odder texts

    def may_join(self, first: Chunk, second: Chunk) -> bool:
        """Whether two neighbours may become one, when one of them is below the minimum."""
        return True

    def document(self, text: str) -> Document:
        """How this strategy's texts become documents."""
        return Document(text)

    def cut(self, text: str, **more: Any) -> tuple[Chunk, ...]:
        document = self.document(text)
        chunks = cut(self.plugin, document, **{**self.options, **more})
        self.check(document.text, chunks)
        return chunks

    def check(self, text: str, chunks: Sequence[Chunk]) -> None:
        """Spans are exact, trimmed and ordered, and lose nothing but whitespace."""
        for chunk in chunks:
            assert dict(chunk.extra).keys() <= EXTRAS | {"symbol"}  # docs/metadata.md explains them
            assert chunk.text
            assert chunk.text == chunk.text.strip()
            assert chunk.text == "\n".join(text[start:end] for start, end in spans(chunk))
            assert (chunk.start, chunk.end) == (spans(chunk)[0][0], spans(chunk)[-1][1])
        starts = [chunk.start for chunk in chunks]
        assert starts == sorted(starts)
        if self.contiguous:
            ends = [chunk.end for chunk in chunks]
            assert ends == sorted(set(ends)), "a chunk within another"
        self._check_coverage(text, chunks)

    def _check_coverage(self, text: str, chunks: Sequence[Chunk]) -> None:
        at = 0
        for start, end in sorted(span for chunk in chunks for span in spans(chunk)):
            assert not text[at:start].strip(), f"lost {text[at:start]!r}"
            assert self.overlaps or start >= at, "text repeated"
            at = max(at, end)
        assert not text[at:].strip(), f"lost {text[at:]!r}"

    def test_empty_text_makes_no_chunks(self) -> None:
        for text in NOTHING:
            with case(text):
                assert self.cut(text) == ()

    def test_single_character_is_one_chunk(self) -> None:
        for text in CHARACTERS:
            with case(text):
                (chunk,) = self.cut(text)
                assert chunk.text == text.strip()

    @searching
    @given(texts | odd_texts)
    def test_spans_are_exact_ordered_and_lose_nothing(self, text: str) -> None:
        assert self.cut(text) or not text.strip()

    @searching
    @given(texts | odd_texts)
    def test_chunks_of_any_text_keep_the_limits(self, text: str) -> None:
        chunks = self.cut(text, **self.limited)
        sizes = TOKENS.counts([chunk.text for chunk in chunks])
        assert all(size <= self.limited["max_tokens"] for size in sizes)
        if self.joins:
            self._check_joined(text, chunks, sizes)

    @searching
    @given(texts | odd_texts, st.data())
    def test_smallest_sizes_lose_nothing_and_hold(self, text: str, data: st.DataObject) -> None:
        options = data.draw(st.sampled_from(self.tight))
        sizes = TOKENS.counts([chunk.text for chunk in self.cut(text, **options)])
        most = options.get("max_tokens")
        assert most is None or all(size <= most for size in sizes)

    @searching
    @given(outlines)
    def test_no_chunk_ends_with_a_lead_whose_body_fits(self, outline: Sequence[tuple[str, str, int]]) -> None:
        if not self.leads:
            pytest.skip("this strategy does not follow the text")
        document, bodies = composed(outline)
        chunks = cut(self.plugin, document, **{**self.options, **self.limited})
        self.check(document.text, chunks)
        for start, end, body in bodies:
            torn = any(start < chunk.end <= end for chunk in chunks)
            kept = any(chunk.start <= start + 1 and chunk.end > end for chunk in chunks)
            assert kept or not torn or TOKENS.count(document.text[start:body]) > self.room

    @searching
    @given(texts | odd_texts)
    def test_no_chunk_begins_inside_a_character(self, text: str) -> None:
        joined = {  # whitespace that a mark follows is trimmed, and a long cluster is torn
            place
            for found in CLUSTERS.finditer(text)
            if found.end() - found.start() <= 32
            for place in range(found.start() + len(found[0]) - len(found[0].lstrip()) + 1, found.end())
        }
        assert not [chunk for chunk in self.cut(text) for start, _ in spans(chunk) if start in joined]

    def _check_joined(self, text: str, chunks: Sequence[Chunk], sizes: Sequence[int]) -> None:
        for (first, size), (second, other) in pairwise(zip(chunks, sizes, strict=True)):
            if min(size, other) < self.limited["min_tokens"] and self.may_join(first, second):
                assert TOKENS.count(text[first.start : second.end]) > self.limited["max_tokens"]

    @searching
    @given(texts)
    def test_same_text_gives_the_same_chunks(self, text: str) -> None:
        assert self.cut(text) == self.cut(text)

    @settings(searching, max_examples=6)
    @given(keep=st.integers(0, 400), new=texts)
    def test_edit_elsewhere_changes_nothing_here(self, keep: int, new: str) -> None:
        if not self.local:
            pytest.skip("this strategy looks at the whole document")
        text = essay(40)
        edited = text[: len(text) * 3 // 4 + keep] + new
        assert self._first_half(text, text) == self._first_half(text, edited)

    def _first_half(self, original: str, text: str) -> list[Chunk]:
        half = [chunk for chunk in self.cut(text) if chunk.end <= len(original) // 2]
        assert len(half) > 3
        return half

    def test_user_perceived_characters_are_not_split(self) -> None:
        for whole in WHOLES:
            with case(whole * 60):
                ends = [end for chunk in self.cut(whole * 60) for span in spans(chunk) for end in span]
                assert all(end % len(whole) == 0 for end in ends)

    def test_large_monotonous_texts_are_read_in_linear_time(self) -> None:
        for unit in MONOTONOUS:
            with case(unit):
                text = unit * (self.large // 60 // len(unit))
                assert self.cut(text) or not text.strip()

    def test_large_prose_is_cut(self) -> None:
        text = essay(self.large // 300)
        assert self.cut(text) or not text.strip()

    @pytest.mark.slow
    @pytest.mark.parametrize("unit", ["x", "\n", "字。", "word. ", essay(40)])
    def test_text_of_five_megabytes_is_cut(self, unit: str) -> None:
        text = unit * (5_000_000 // len(unit.encode()))
        assert self.cut(text) or not text.strip()


def laws(plugin: Plugin, options: Options | None = None, **attributes: Any) -> type[ChunkerLaws]:
    """Return the laws for a strategy with these options. ``attributes`` replace those of ``ChunkerLaws``."""
    return type("Laws", (ChunkerLaws,), {"plugin": plugin, "options": options or {}, **attributes})
