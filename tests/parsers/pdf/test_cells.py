import pytest

from ingestor.model import Blob
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions
from tests.parsers.files import pdf
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(PdfOptions())
ITEMS = [("Item", "Weight", "Price"), ("Stone", "12", "3"), ("Feather", "1", "9"), ("Rope", "4", "2")]
FRAME = "".join(f"50 {y} m 450 {y} l S " for y in (700, 670, 645, 620)) + "".join(
    f"{x} 620 m {x} 700 l S " for x in (50, 450)
)


def read(drawn: list[tuple[int, int, int, str]], lines: str) -> list[str]:
    document = obeys_laws(PARSER, Blob(pdf([drawn], lines=lines), "a.pdf"))
    assert document is not None
    return texts(document)


def placed(step: int) -> list[tuple[int, int, int, str]]:
    return [
        (x, 700 - step * at, 10, said)
        for at, row in enumerate(ITEMS)
        for x, said in zip((60, 160, 260), row, strict=True)
    ]


def test_a_rule_that_passes_through_a_word_does_not_cut_it() -> None:
    said = [(60, 680, 10, "Your social security number"), (60, 650, 10, "Ada"), (260, 650, 10, "12"),
            (60, 630, 10, "Grace"), (260, 630, 10, "14")]  # fmt: skip
    (table,) = read(said, f"{FRAME}140 620 m 140 700 l S 250 620 m 250 700 l S ")
    assert table.startswith("Your social security number\n")
    assert table.count("securi") == 1


def test_words_of_two_cells_that_touch_are_two() -> None:
    said = [(60, 680, 10, "Name"), (260, 680, 10, "Price"), (60, 650, 10, "Article"), (93, 650, 10, "12.00"),
            (60, 630, 10, "Rope"), (93, 630, 10, "9.00")]  # fmt: skip
    (table,) = read(said, f"{FRAME}92 620 m 92 700 l S ")
    assert "\nArticle 12.00\n" in table


@pytest.mark.parametrize(
    ("step", "drawn"),
    [
        # one rule below the names; the upright ones are drawn line by line
        (12, "50 696 m 340 696 l S " + "".join(f"{x} {696 - 12 * n} m {x} {708 - 12 * n} l S "
                                             for n in range(4) for x in (150, 250))),
        # between all rows and columns, without a frame
        (20, "".join(f"50 {694 - 20 * n} m 340 {694 - 20 * n} l S " for n in range(3))
         + "".join(f"{x} 630 m {x} 715 l S " for x in (150, 250))),
    ],
)  # fmt: skip
def test_tables_with_inner_rules_and_no_frame(step: int, drawn: str) -> None:
    (table,) = read(placed(step), drawn)
    assert table.splitlines()[1:] == ["Stone 12 3", "Feather 1 9", "Rope 4 2"]


def test_letters_of_a_watermark_are_in_no_cell() -> None:
    mark = "BT /F1 60 Tf .7 .7 -.7 .7 100 560 Tm (DRAFT) Tj ET "
    said = [(60, 680, 10, "Weights"), (60, 650, 10, "stone"), (260, 650, 10, "12 kg"),
            (60, 630, 10, "feather"), (260, 630, 10, "1 g")]  # fmt: skip
    found = read(said, f"{FRAME}250 620 m 250 670 l S {mark}")
    assert found[0] == "DRAFT"
    assert found[1].splitlines()[1:] == ["stone 12 kg", "feather 1 g"]
