from itertools import product

import pytest

from ingestor.parsers.pdf.layout import without_running_headers
from ingestor.parsers.pdf.lines import Line, PageLines

NAMES = ["".join(letters) for letters in product("abcdefg", "klmnop")]


def line(text: str, baseline: float, **facts: object) -> Line:
    return Line(text, 50, 300, baseline, **{"size": 10.0, **facts})  # type: ignore[arg-type]


def pages(*said: Line, count: int = 6) -> list[PageLines]:
    body = [line(f"words of this page alone {n}" * 3, 400) for n in range(count)]
    return [PageLines(str(n + 1), 800, (*said, body[n])) for n in range(count)]


@pytest.mark.parametrize(
    ("repeated", "kept"),
    [
        (line("A running head", 780), False),
        (line("A running head", 780, rows=(("Pump P-7", "Manual"), ("Rev. 3", "Page 4 of 9"))), False),
        (line("A running head", 780, size=14.0), False),
        (line("A head that holds most of what is on its page, and so is its text" * 4, 780), True),
        (line("words inside of the page", 600), True),
        (line("DRAFT", 600, slanted=True), False),
    ],
)
def test_furniture_of_pages_is_recognised(repeated: Line, kept: bool) -> None:
    assert all((repeated in page.lines) == kept for page in without_running_headers(pages(repeated)))


@pytest.mark.parametrize("drift", [0.0, 0.9, 1.8])
def test_header_below_a_changing_line_goes_from_every_page(drift: float) -> None:
    head = [line("Pump P-7, manual for operators", 768 + drift * (n % 2)) for n in range(42)]
    own = [line(f"On the {name} of pumps", 780) for name in NAMES]
    body = [line(f"words of this page alone {n} " * 3, 400) for n in range(42)]
    document = [PageLines(str(n), 800, (own[n], head[n], body[n])) for n in range(42)]
    assert [page.lines for page in without_running_headers(document)] == list(zip(own, body, strict=True))


def test_figures_of_a_table_at_the_edge_of_every_page_are_kept() -> None:
    totals = [line("Total", 30, rows=(("Total", f"{n}.50"), ("Tax", "19 %"))) for n in range(6)]
    document = [PageLines(str(n), 800, (*page.lines, totals[n])) for n, page in enumerate(pages())]
    assert without_running_headers(document) == document


def test_page_with_nothing_but_a_running_head_still_loses_it() -> None:
    head = line("A running head", 780)
    blank = PageLines("7", 800, (head,))
    assert without_running_headers([*pages(head), blank])[-1].lines == ()


def test_identical_pages_are_not_emptied() -> None:
    tickets = [PageLines(str(n), 800, (line(f"Ticket {n}", 780), line("Admit one", 20))) for n in range(1, 9)]
    assert without_running_headers(tickets) == tickets


def test_second_line_of_a_header_is_omitted_where_half_of_the_pages_have_it() -> None:
    head, second, code = line("A running head", 780), line("Its second line", 768), line("}", 756)
    found = without_running_headers(
        [*pages(head, second, count=4), *pages(head, code, count=3), *pages(head)]
    )
    assert [len(page.lines) for page in found] == [2] * 4 + [2] * 3 + [1] * 6
    found = without_running_headers([*pages(head, second, count=4), *pages(head, count=3)])
    assert [len(page.lines) for page in found] == [1] * 7
