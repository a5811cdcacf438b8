import pytest

from ingestor.parsers.pdf.forms import Field, place
from ingestor.parsers.pdf.lines import Word


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (Field("n", "Ada", (60, 98, 200, 112)), {0: ("", " Ada")}),  # beside "Name:"
        (Field("n", "Ada", (0, 80, 100, 96)), {0: ("", " Ada")}),  # below it
        (Field("b", "", (40, 60, 50, 70), ticked=True), {9: ("[x] ", "")}),  # left of "Member"
        (Field("b", "", (300, 60, 310, 70), ticked=False), {9: ("", " [ ]")}),  # right of it
    ],
)
def test_form_value_is_placed_at_its_field(field: Field, expected: dict[int, tuple[str, str]]) -> None:
    words = [Word("Name:", 20, 55, 100, 0), Word("____", 60, 190, 99, 5), Word("Member", 55, 100, 62, 9)]
    assert place([field], words).values == expected


def test_field_without_a_label_is_a_line_after_its_name() -> None:
    (line,) = place([Field("year", "1843", (300, 500, 340, 510))], []).lines
    assert (line.text, line.left, line.baseline) == ("year: 1843", 300, 500)


def test_empty_box_beside_no_words_is_ignored() -> None:
    assert place([Field("c1_09[0]", "", (300, 500, 310, 510), ticked=False)], []).lines == ()
