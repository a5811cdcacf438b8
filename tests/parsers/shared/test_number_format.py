"""Numbers as Excel shows them, with the signs and marks of a format."""

# ruff: noqa: E501 - markup reads better in one line

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.parsers.office.number_format import writer

ACCOUNTS = '_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-'


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [
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
    ],
)  # fmt: skip
def test_number_is_shown_as_its_format_says(value: float, form: str, shown: str) -> None:
    assert writer(form)(value) == shown


@given(st.floats(), st.text('#0,.%ymdhs[]E ;"$/?@->', max_size=12))
def test_any_number_in_any_format_is_text(value: float, form: str) -> None:
    try:
        assert isinstance(writer(form)(value), str)
    except (ValueError, OverflowError):
        assert abs(value) > 1e5  # the value as it stands is shown then
