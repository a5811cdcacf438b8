"""Numbers as documents declare them, and as word processors write them."""

import pytest

from ingestor.parsers.shared.numbers import parse_integer, raise_digits, write_number


@pytest.mark.parametrize(
    ("style", "numbers"),
    [
        ("decimal", {1: "1", 12: "12"}),
        ("lowerLetter", {1: "a", 26: "z", 27: "aa"}),
        ("upperRoman", {4: "IV", 1999: "MCMXCIX"}),
        ("decimalZero", {3: "03", 12: "12"}),
        ("decimalEnclosedCircle", {1: "①", 20: "⑳", 21: "21"}),
        ("decimalFullWidth", {12: "１２"}),
        (
            "chineseCountingThousand",
            {1: "一", 10: "十", 12: "十二", 20: "二十", 105: "一百零五", 110: "一百一十", 1001: "一千零一"},
        ),
        ("japaneseCounting", {10: "十", 21: "二十一", 105: "百五", 1200: "千二百"}),
        ("ideographDigital", {10: "一〇"}),
        ("aiueoFullWidth", {2: "イ"}),
        ("russianUpper", {3: "В"}),
        ("unheardOf", {7: "7"}),
    ],
)
def test_numbers_are_written_in_each_style(style: str, numbers: dict[int, str]) -> None:
    assert {value: write_number(value, style) for value in numbers} == numbers


@pytest.mark.parametrize(("text", "shown"), [("3", "³"), ("-6", "⁻⁶"), ("st", "st"), ("", "")])
def test_raised_digits_become_superscripts(text: str, shown: str) -> None:
    assert raise_digits(text) == shown


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), ("9" * 5000, 999_999_999), ("²", 7), ("-1", 7), ("", 7), ("٣", 7)]
)
def test_only_plain_digits_are_a_number(text: str, number: int) -> None:
    assert parse_integer(text, 7) == number
