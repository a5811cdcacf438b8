"""Numbers that documents declare."""

import pytest

from ingestor.parsers.shared.numbers import parse_integer
from tests.parsers.files import odf


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), ("9" * 5000, 999_999_999), ("²", 7), ("-1", 7), ("", 7), ("٣", 7)]
)
def test_only_plain_digits_are_a_number(text: str, number: int) -> None:
    assert parse_integer(text, 7) == number


@pytest.mark.parametrize("level", ["9" * 5000, "²"])
def test_heading_of_an_absurd_level_is_read(level: str) -> None:
    from ingestor.model import Blob
    from ingestor.registry import find

    plugin = find("parsers", "odf")
    data = odf("text", f'<text:h text:outline-level="{level}">Title</text:h>')
    assert "Title" in plugin.build(plugin.options()).parse(Blob(data, "a.odt")).text
