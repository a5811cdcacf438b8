"""Numbers as documents declare them, as word processors write them, and as Excel shows them."""

# ruff: noqa: E501 - markup reads better in one line

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.parsers.office.number_format import writer
from ingestor.parsers.shared.numbers import parse_integer, raise_digits, write_number


def test_numbers_are_written_in_each_style() -> None:
    for style, numbers in [
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
    ]:
        assert {value: write_number(value, style) for value in numbers} == numbers


@pytest.mark.parametrize(("text", "shown"), [("3", "³"), ("-6", "⁻⁶"), ("st", "st"), ("", "")])
def test_raised_digits_become_superscripts(text: str, shown: str) -> None:
    assert raise_digits(text) == shown


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), ("9" * 5000, 999_999_999), ("²", 7), ("-1", 7), ("", 7), ("٣", 7)]
)
def test_only_plain_digits_are_a_number(text: str, number: int) -> None:
    assert parse_integer(text, 7) == number


ACCOUNTS = '_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-'


def test_number_is_shown_as_its_format_says() -> None:
    for value, form, shown in [
        (3.0, "", "3"), (0.1 + 0.2, "General", "0.3"), (1e20, "", "1e+20"), (4, 'General" pcs"', "4 pcs"),
        (5, "@", "5"), (1234.5, "0", "1235"), (1234.5678, "#,##0.00", "1,234.57"), (0.125, "0.00", "0.13"),
        (2.5, "0.##", "2.5"), (2, "0.##", "2"), (0, "#", ""), (-0.001, "0.00", "0.00"),
        (0.256, "0%", "26%"), (0.125, "0.00%", "12.50%"), (1e300, "0.00E+00", "1.00E+300"),
        (12345, "0.00E+00", "1.23E+04"), (0.00012, "0.0E-0", "1.2E-4"),
        # currencies and units
        (1234.5, '"$"#,##0.00', "$1,234.50"), (1234.5, '#,##0.00\\ "€"', "1,234.50 €"),
        (1234.5, "#,##0.00 [$€-407]", "1,234.50 €"), (-5, "[$CHF] #,##0", "-CHF 5"), (2.5, '0.0" kg"', "2.5 kg"),
        (-3, '0"°C"', "-3°C"), (7, '"Nr. "0', "Nr. 7"), (0, ACCOUNTS, "- €"), (-12.5, ACCOUNTS, "-12.50 €"),
        (-5, "$#,##0_);($#,##0)", "($5)"), (-1234, "#,##0;(#,##0)", "(1,234)"), (-3, "0.0;[Red]-0.0", "-3.0"),
        # leading zeros, and digits with signs between them
        (1234, "00000", "01234"), (7, "0,000", "0,007"), (123456789, "000-00-0000", "123-45-6789"),
        (5551234567, "(000) 000-0000", "(555) 123-4567"), (12345678, "0000 0000", "1234 5678"),
        # scales, fractions, conditions, sections
        (12345, '#,##0,"k"', "12k"), (12345678, '#,##0.0,,"M"', "12.3M"), (1.75, "# ?/?", "1 3/4"),
        (0.5, "?/?", "1/2"), (2, "# ?/?", "2"), (1500, '[>=1000]#,##0," K";0', "2 K"),
        (500, '[>=1000]#,##0," K";0', "500"), (0, "0;-0;;@", ""), (5, "+0;-0;0", "+5"), (0, '0;-0;"none"', "none"),
        # dates
        (45000.0, "yyyy-mm-dd", "2023-03-15"), (45000.75, "d/m/yy h:mm", "2023-03-15 18:00"),
        (0.75, "h:mm:ss", "18:00:00"), (0.75, "h:mm AM/PM", "18:00"), (1.5, "[h]:mm:ss", "36:00:00"),
        (45000.0, "mmm-yy", "2023-03"), (45306, "yyyy", "2024"), (45306, "[$-409]d-mmm-yy;@", "2024-01-15"),
        (45306, 'dddd", "d', "2024-01-15"), (-1.0, "yyyy", "-1"),
    ]:  # fmt: skip
        assert writer(form)(value) == shown


@given(st.floats(), st.text('#0,.%ymdhs[]E ;"$/?@->', max_size=12))
def test_any_number_in_any_format_is_text(value: float, form: str) -> None:
    try:
        assert isinstance(writer(form)(value), str)
    except (ValueError, OverflowError):
        assert abs(value) > 1e5  # the value as it stands is shown then
