import pytest

from ingestor.parsers.pdf.characters import UNKNOWN, meanings
from ingestor.parsers.pdf.page import possible


@pytest.mark.parametrize(
    ("codes", "font", "expected"),
    [
        (b"12\x1524", "", "12–24"),  # T1
        (b"o\x1ece, stra\xffe", "", "o\ufb03ce, straße"),
        (b"a\x0ece 1{2", "", "a\ufb03ce 1–2"),  # OT1: its ligatures tell
        (b"\x00\x58\x12\x13\x7e", "cmex10", 5 * UNKNOWN),
        (b"a\x01b", "arial", f"a{UNKNOWN}b"),
    ],
)
def test_codes_without_a_unicode_value_are_mapped(codes: bytes, font: str, expected: str) -> None:
    assert "".join(meanings(codes, [font] * len(codes))) == expected


def page(drawn: str) -> list[str]:
    """Objects 1 to 4 of a file of one page. Its font is object 5."""
    return [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        f"<</Length {len(drawn)}>>stream\n{drawn}\nendstream",
    ]


def test_impossible_characters_are_unknown() -> None:
    assert possible([0x41, 0xE0E0E0]) == [0x41, 0xFFFD]
