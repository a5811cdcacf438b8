"""Documents with known headings, as pieces that styles of TeX and ODT set in different ways.

A document has headings with their level, paragraphs, lists, formulas, tables, code and notes. It also has
pieces that look like headings: captions, bold terms, theorems, definitions, subjects of letters.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_TEXTS = Path(__file__).parent.parent / "documents"
NOUNS = (
    *("Harbour", "Ledger", "Valve", "Archive", "Bridge", "Engine", "Orchard", "Furnace", "Signal", "Cellar"),
    *("Loom", "Quarry", "Rudder", "Beacon", "Turbine", "Granary", "Compass", "Foundry", "Canal", "Lantern"),
)
_FORMS = (
    *(
        "Introduction",
        "Background",
        "Related Work",
        "Methods",
        "The {0}",
        "Maintenance of the {0}",
        "{0} and {1}",
    ),
    *("Why the {0} Matters", "Measuring a {0} with a {1}", "Results", "Discussion", "Limits of the {0}"),
    *("Setting up the {0}", "{0}s in Winter", "How to Repair a {0} When the {1} Fails", "Conclusion"),
    *(
        "Safety",
        "Requirements",
        "{0} Rules",
        "The History of the {0} in the Northern Provinces and on the Coast",
    ),
)


@dataclass
class Piece:
    """Piece of a document. ``kind``: h1, h2, h3, text, list, formula, table, code, term, theorem, caption."""

    kind: str
    text: str
    more: list[str] = field(default_factory=list)


@dataclass
class Source:
    """A document. ``headings``: (level, title), in order. ``held``: whether it was held out of tuning."""

    name: str
    suffix: str
    text: str
    headings: list[tuple[int, str]]
    title: str
    held: bool


def _sentences() -> list[str]:
    words = " ".join(path.read_text("utf-8") for path in sorted(_TEXTS.rglob("*.md")))
    plain = re.sub(r"[`*_#|\[\]<>\\^~$%&{}]|\(http[^)]*\)", " ", words).encode("ascii", "ignore").decode()
    sequence = [" ".join(sentence.split()) for sentence in re.split(r"(?<=[.?!])\s+", plain)]
    return [
        sentence
        for sentence in sequence
        if 40 < len(sentence) < 260 and sentence[0].isupper() and sentence[-1] in ".?!"
    ]


_SENTENCES = _sentences()


def title(dice: random.Random) -> str:
    return dice.choice(_FORMS).format(*dice.sample(NOUNS, 2))


def paragraph(dice: random.Random, least: int = 2, most: int = 7) -> str:
    return " ".join(dice.choices(_SENTENCES, k=dice.randint(least, most)))


def pieces(seed: int, sections: int, depth: int, kinds: str) -> list[Piece]:
    """Compose a document. ``kinds``: letters for the pieces between paragraphs."""
    dice = random.Random(seed)
    sequence: list[Piece] = []
    for _ in range(sections):
        sequence.append(Piece("h1", title(dice)))
        if dice.random() < 0.8:
            sequence += _body(dice, kinds)
        for _ in range(dice.randint(0, 3) if depth > 1 else 0):
            sequence.append(Piece("h2", title(dice)))
            sequence += _body(dice, kinds)
            for _ in range(dice.randint(0, 2) if depth > 2 else 0):
                sequence.append(Piece("h3", title(dice)))
                sequence += _body(dice, kinds)
    return sequence


def _body(dice: random.Random, kinds: str) -> Iterator[Piece]:
    yield Piece("text", paragraph(dice))
    for kind in dice.sample(kinds, k=min(len(kinds), dice.randint(0, 2))):
        match kind:
            case "l":
                yield Piece("list", "", [paragraph(dice, 1, 1) for _ in range(dice.randint(2, 5))])
            case "s":
                yield Piece(
                    "list", "", [f"{dice.choice(NOUNS)} {dice.choice(NOUNS).lower()}" for _ in "abcd"]
                )
            case "f":
                yield Piece("formula", "")
            case "t":
                yield Piece("table", title(dice))
            case "c":
                yield Piece("code", "for name in names:\n    print(name)\nreturn None")
            case "d":
                yield Piece("term", dice.choice(NOUNS), [paragraph(dice, 1, 2)])
            case "b":
                yield Piece("bold", dice.choice(NOUNS), [paragraph(dice, 1, 3)])
            case "m":
                yield Piece("theorem", "", [paragraph(dice, 1, 2)])
        yield Piece("text", paragraph(dice, 1, 4))


def headings_of(sequence: list[Piece]) -> list[tuple[int, str]]:
    return [(int(piece.kind[1]), piece.text) for piece in sequence if re.fullmatch(r"h\d", piece.kind)]
