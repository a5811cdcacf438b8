"""Text that is shown has nothing that steers a terminal, or that people would not see."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.core.escape import escape_invisible, line, raw

# Format characters that are seen, that scripts need in each word, or that stand alone.
VISIBLE = {*range(0x600, 0x606), 0x6DD, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x1343F)}
ONCE = {0xAD, 0x180E, 0x200B, 0x200C, 0x200D, 0x2060}


def test_every_invisible_character_is_escaped() -> None:
    shown = {
        code
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs") and escape_invisible(chr(code)) == chr(code)
    }
    assert shown - VISIBLE - ONCE == {0x9, 0xA}
    selectors = range(0xE0100, 0xE01F0)
    assert not [code for code in (*selectors, 0x3164, 0x115F) if escape_invisible(chr(code)) == chr(code)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\U000e0049\U000e0067", "a\\udb40\\udc49\\udb40\\udc67"),
        ("pdf.\u202etxt", "pdf.\\u202etxt"),
        ("\u2764\ufe0f \U0001f468\u200d\U0001f469", "\u2764\ufe0f \U0001f468\u200d\U0001f469"),
        ("a\ufe01\ufe0f\ufe02", "a\ufe01\\ufe0f\\ufe02"),
        ("\u200b\u200c\u200d", "\u200b\\u200c\\u200d"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
    ],
)
def test_hidden_words_are_shown_and_scripts_stay(text: str, shown: str) -> None:
    assert escape_invisible(text) == shown


@given(st.text().filter(lambda text: "\\" not in text and not any("\ud800" <= c <= "\udfff" for c in text)))
def test_escaped_text_is_read_back(text: str) -> None:
    assert raw(line(text)) == text
