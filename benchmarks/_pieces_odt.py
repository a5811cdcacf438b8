"""Flat ODT of the documents of _pieces.py, in styles of word processors."""
# ruff: noqa: E501

import random
import re
from collections.abc import Iterator
from html import escape

from benchmarks._pieces import NOUNS, Piece, Source, headings_of, paragraph, pieces

_SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{full}:1.0"'
    for name, full in [
        *(("office", "office"), ("text", "text"), ("style", "style"), ("table", "table")),
        ("fo", "xsl-fo-compatible"),
        ("svg", "svg-compatible"),
    ]
)
_BOLD = 'fo:font-weight="bold"'
_ITALIC = 'fo:font-style="italic"'
_SERIF, _SANS = 'style:font-name="Liberation Serif"', 'style:font-name="Liberation Sans"'

# name, text of the body's style, styles of the headings, numbered, columns, kinds, held out
_ODT: list[tuple[str, str, tuple[str, ...], bool, int, str, bool]] = [
    ("plain", f'{_SERIF} fo:font-size="12pt"', (f'{_SANS} {_BOLD} fo:font-size="16pt"',
     f'{_SANS} {_BOLD} fo:font-size="14pt"', f'{_SANS} {_BOLD} fo:font-size="12pt"'), False, 1, "lsbt", False),
    ("numbered-bold", f'{_SERIF} fo:font-size="11pt"', (f'{_BOLD} fo:font-size="11pt"',) * 3, True, 1, "lbt", False),
    ("columns", f'{_SERIF} fo:font-size="10pt"', (f'{_BOLD} fo:font-size="12pt"', f'{_BOLD} fo:font-size="10pt"'),
     True, 2, "lt", False),
    ("small-caps", f'{_SERIF} fo:font-size="11pt"', ('fo:font-variant="small-caps" fo:font-size="11pt"',
     f'{_ITALIC} fo:font-size="11pt"'), False, 1, "lb", False),
    ("letter", f'{_SANS} fo:font-size="11pt"', (), False, 1, "", False),
    ("office", f'{_SANS} fo:font-size="11pt"', ('fo:font-size="16pt" fo:color="#2f5496"',
     'fo:font-size="13pt" fo:color="#2f5496"', 'fo:font-size="12pt" fo:color="#1f3763"'), False, 1, "lsbt", False),
    # held out
    ("held-apa", f'{_SERIF} fo:font-size="12pt"', (f'{_BOLD} fo:font-size="12pt"', f'{_BOLD} fo:font-size="12pt"',
     f'{_BOLD} {_ITALIC} fo:font-size="12pt"'), False, 1, "lbt", True),
    ("held-upper", f'{_SANS} fo:font-size="10pt"', ('fo:text-transform="uppercase" fo:font-size="10pt"',
     f'{_BOLD} fo:font-size="10pt"'), True, 1, "ls", True),
    ("held-minutes", f'{_SERIF} fo:font-size="11pt"', (f'{_BOLD} fo:font-size="12pt"',), True, 1, "sb", True),
    ("held-two-columns", f'{_SERIF} fo:font-size="10pt"', (f'{_SANS} {_BOLD} fo:font-size="10pt"',
     f'{_SANS} fo:font-size="10pt"'), False, 2, "lb", True),
]  # fmt: skip


def odt_sources() -> Iterator[Source]:
    for seed, (name, body, heads, numbered, columns, kinds, held) in enumerate(_ODT, 100):
        dice = random.Random(seed)
        found = pieces(seed, 6, len(heads), kinds) if heads else _odt_letter(dice)
        title = f"On the {dice.choice(NOUNS)} and Its Uses" if heads else ""
        counts = [0, 0, 0]
        said = [_p("Title", title), _p("P", "Ada Lovelace, Porthaven College")] if title else []
        said += [_odt_piece(piece, counts, numbered) for piece in found]
        text = _flat(body, heads, columns, "".join(said))
        yield Source(f"odt-{name}", "fodt", text, headings_of(found), title, held)


def _odt_letter(dice: random.Random) -> list[Piece]:
    head = [Piece("text", said) for said in ("Ada Lovelace", "12 Mill Lane", "Porthaven", "3 March 2026")]
    body = [Piece("text", paragraph(dice)) for _ in range(6)]
    return [*head, Piece("subject", "The price of rope"), Piece("text", "Dear Ada,"), *body]


def _p(style: str, said: str) -> str:
    return f'<text:p text:style-name="{style}">{escape(said)}</text:p>'


def _odt_piece(piece: Piece, counts: list[int], numbered: bool) -> str:
    match piece.kind:
        case "h1" | "h2" | "h3":
            level = int(piece.kind[1])
            counts[level - 1 :] = [counts[level - 1] + 1, *[0] * (3 - level)]
            number = ".".join(map(str, counts[:level])) + " " if numbered else ""
            return f'<text:h text:style-name="H{level}" text:outline-level="{level}">{number}{piece.text}</text:h>'
        case "list":
            return "".join(_p("L", f"• {item}") for item in piece.more)
        case "subject":
            return _p("Bold", piece.text)
        case "term" | "bold":
            return (
                f'<text:p text:style-name="P"><text:span text:style-name="B">{piece.text}:</text:span> '
                f"{escape(piece.more[0])}</text:p>"
            )
        case "table":
            rows = [("Item", "Weight"), ("Stone", "12"), ("Feather", "1")]
            cells = "".join(
                "<table:table-row>"
                + "".join(
                    f'<table:table-cell table:style-name="C">{_p("Bold" if at == 0 else "P", cell)}'
                    "</table:table-cell>"
                    for cell in row
                )
                + "</table:table-row>"
                for at, row in enumerate(rows)
            )
            return (
                f'<table:table><table:table-column table:number-columns-repeated="2"/>{cells}</table:table>'
                + _p("Bold", f"Table 1: {piece.text}")
            )
    return _p("P", piece.text)


def _flat(body: str, heads: tuple[str, ...], columns: int, said: str) -> str:
    space = 'fo:margin-top="12pt" fo:margin-bottom="4pt" fo:keep-with-next="always"'
    font = re.sub(r'fo:font-size="\w+"', "", body)
    centred = ' fo:text-align="center"'
    styles = "".join(
        f'<style:style style:name="H{level}" style:family="paragraph"><style:paragraph-properties {space}'
        f"{centred if level == 1 and '12pt' in head and 'bold' in head else ''}/>"
        f"<style:text-properties {'' if 'font-name' in head else font} {head}/></style:style>"
        for level, head in enumerate(heads, 1)
    )
    split = f'<style:columns fo:column-count="{columns}" fo:column-gap="0.6cm"/>' if columns > 1 else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document {_SPACES} office:version="1.2" '
        'office:mimetype="application/vnd.oasis.opendocument.text"><office:font-face-decls>'
        '<style:font-face style:name="Liberation Serif" svg:font-family="Liberation Serif"/>'
        '<style:font-face style:name="Liberation Sans" svg:font-family="Liberation Sans"/>'
        "</office:font-face-decls><office:automatic-styles>"
        f'<style:style style:name="P" style:family="paragraph"><style:paragraph-properties fo:margin-bottom="5pt"'
        f' fo:text-align="justify"/><style:text-properties {body}/></style:style>'
        f'<style:style style:name="L" style:family="paragraph"><style:paragraph-properties fo:margin-left="1cm"/>'
        f"<style:text-properties {body}/></style:style>"
        f'<style:style style:name="Bold" style:family="paragraph"><style:text-properties {body} {_BOLD}/></style:style>'
        f'<style:style style:name="B" style:family="text"><style:text-properties {_BOLD}/></style:style>'
        '<style:style style:name="Title" style:family="paragraph"><style:paragraph-properties'
        f' fo:text-align="center"/><style:text-properties {_BOLD} fo:font-size="20pt"/></style:style>{styles}'
        '<style:style style:name="C" style:family="table-cell"><style:table-cell-properties'
        ' fo:border="0.5pt solid #000000"/></style:style>'
        '<style:page-layout style:name="A4"><style:page-layout-properties fo:page-width="21cm"'
        f' fo:page-height="29.7cm" fo:margin="2.2cm">{split}</style:page-layout-properties></style:page-layout>'
        '</office:automatic-styles><office:master-styles><style:master-page style:name="Standard"'
        ' style:page-layout-name="A4"/></office:master-styles>'
        f"<office:body><office:text>{said}</office:text></office:body></office:document>"
    )
