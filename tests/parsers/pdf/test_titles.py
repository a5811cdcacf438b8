"""Headings of a PDF without an outline; benchmarks/headings.py measures them on whole documents."""

from dataclasses import replace
from pathlib import Path

import pytest

from ingestor.parsers.pdf.headings import headings
from ingestor.parsers.pdf.lines import Bookmark, Line, PageLines, Word

TEXT = "Words of the text that fill the whole width of the column in which they stand"


def page(*said: Line | str, number: int = 1) -> PageLines:
    """One line below the other; the line after an empty one stands after a space."""
    lines, baseline = [], 700.0
    for one in said:
        baseline -= 12
        if not one:
            continue
        line = one if isinstance(one, Line) else Line(one, 50, 450, 0, 10, font="times")
        lines.append(
            Line(**{name: getattr(line, name) for name in Line.__slots__} | {"baseline": baseline})  # type: ignore[arg-type]
        )
    return PageLines(str(number), 800, tuple(lines))


def said(text: str, **facts: object) -> Line:
    known = {"left": 50.0, "right": 50.0 + 5 * len(text), "size": 10.0, "font": "times", **facts}
    return Line(text, baseline=0, **known)  # type: ignore[arg-type]


def found(*pages: PageLines) -> list[tuple[int, str]]:
    return [
        (heading.level, heading.title)
        for of_page in headings(pages, [], 1.2)
        for _, some in sorted(of_page.items())
        for heading in some
    ]


def section(*heading: Line | str) -> list[Line | str]:
    return ["", *heading, TEXT, TEXT, TEXT, TEXT]


def under(*titles: str, **facts: object) -> list[Line | str]:
    """Return a section for each of these titles, all set in this way."""
    return [line for title in titles for line in section(said(title, **facts))]


def test_line_set_apart_is_a_heading() -> None:
    for facts in [
        {"size": 14.0}, {"bold": True}, {"bold": True, "font": "helvetica-bold"}, {"font": "cmcsc10"},
        {"italic": True}, {"font": "helvetica"},
    ]:  # fmt: skip
        pages = [page(TEXT, TEXT, *under("The Harbour", "The Mill in Winter", **facts))]
        assert found(*pages) == [(1, "The Harbour"), (1, "The Mill in Winter")]


NO_HEADINGS = [
    line
    for line in (Path(__file__).parent / "no_headings.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("facts", [{"bold": True}, {"size": 14.0}])
def test_address_label_units_and_columns_are_no_headings(facts: dict[str, object]) -> None:
    """Every line in bold, and each second one in large type, stands between two headings of its style."""
    for line in NO_HEADINGS if "bold" in facts else NO_HEADINGS[::2]:
        titles = found(page(TEXT, TEXT, *under("The Mill", line, "The Town", **facts), *[TEXT] * 5))
        assert titles == [(1, "The Mill"), (1, "The Town")], line


@pytest.mark.parametrize("facts", [{"bold": True}, {"bold": True, "size": 14.0}])
def test_title_that_begins_like_a_label_is_a_heading(facts: dict[str, object]) -> None:
    titles = (
        "At a Glance", "Unaudited Pro Forma Results", "December Storms", "Market Street Revival",
        "Page Design", "Title and Ownership", "2022 Highlights", "Changes in Accounting", "Note 12. Leases",
        "Fiscal Policy", "Three Months in Antarctica", "Millions of Users", "Results for 2022",
    )  # fmt: skip
    outline = found(page(TEXT, TEXT, *under(*titles, **facts)))
    assert [title for _, title in outline] == list(titles)


def test_lines_resembling_headings_are_none() -> None:
    for line in [
        said("in bold within a paragraph", bold=True), said("∑ = x", size=14.0), said("n", size=14.0),
        said("Figure 3: The harbour", bold=True),
        said("A sentence in bold that ends as sentences do.", bold=True),
        said("The Harbour . . . . . . . . 12", bold=True), said("print(name)", size=14.0, mono=True),
        said("\\usepackage{name}", bold=True), said("DRAFT", size=60.0, slanted=True),
        said("a term", bold=True, math=True), said("[ ] I live with the insured person", bold=True),
        said("to be filled in by the office.", size=14.0), said("\ufffd Ask for a form", bold=True),
        said("of the articles (L.161 to L.163", bold=True),
        said("Balance at end of year 175,820 202,777 2,266 (2,595)", bold=True),
        *(said(line, size=14.0) for line in ("• The Mill", "– The Mill –", "Table B1", "Figure A.3")),
    ]:  # fmt: skip
        apart = [] if line.text.startswith("in bold") else [""]
        pages = [page(TEXT, TEXT, *apart, line, TEXT, TEXT, "", said("The Mill", bold=True), *[TEXT] * 9)]
        assert line.text not in [title for _, title in found(*pages)]


def test_style_that_is_used_within_the_text_makes_no_headings() -> None:
    bold = [said(f"Term {n}", bold=True) for n in "abcde"]
    assert found(page(TEXT, "", *bold, *[TEXT] * 9)) == []


def test_levels_follow_numbers_else_size_and_what_comes_first() -> None:
    numbered = under("1 Harbour", "1.1 Mill", "1.1.1 Quay", "2 Town", bold=True)
    plain = [*under("Harbour", size=14.0), *under("Mill", bold=True), *under("Quay", italic=True)]
    for lines in (numbered, [*plain, *under("Town", size=14.0)]):
        assert [level for level, _ in found(page(TEXT, *lines))] == [1, 2, 3, 1]


def test_title_and_its_authors_do_not_push_sections_down() -> None:
    cover = [said("On Harbours", size=20.0), "", said("Ada Lovelace", size=12.0), said("May 2026", size=12.0)]
    sections = under("Quay", "Mill", "Town", size=14.0)
    assert found(page(*cover, "", TEXT, *sections)) == [
        (1, "On Harbours"), (1, "Quay"), (1, "Mill"), (1, "Town"),
    ]  # fmt: skip


def test_entries_of_a_table_of_contents_are_no_headings() -> None:
    contents = [said(f"{n} The Harbour {n}", bold=True) for n in range(1, 6)]
    assert found(page("", *contents, *[TEXT] * 9)) == []


def test_parts_and_items_of_a_report_set_the_levels() -> None:
    expected = [
        (1, "PART I"), (2, "Item 1. Business"), (3, "General"), (2, "Item 2. Properties"), (1, "PART II"),
        (2, "Item 5. Market"), (3, "Holders"),
    ]  # fmt: skip
    assert found(page(TEXT, *under(*(title for _, title in expected), bold=True))) == expected


@pytest.mark.parametrize(
    "title",
    ["Item 9B. Other Information", "Note 4 - Held for Sale", "Condensed Consolidated Statements of Income"],
)
def test_name_of_a_part_of_a_report_set_as_the_text_is_a_heading(title: str) -> None:
    assert found(page(*[TEXT] * 5, *section(said(title)), *[TEXT] * 5)) == [(1, title)]
    assert found(page(*[TEXT] * 5, *section(said(f"{title} is told of below.")), *[TEXT] * 5)) == []


def test_sparse_outline_is_completed_by_headings_below_its_entries() -> None:
    pages = [
        page(*section(said("Highlights", size=14.0)), *section(said("Dividend", bold=True)), *[TEXT] * 9),
        page(*section(said("Guidance", bold=True)), *[TEXT] * 9),
        page(*[TEXT] * 9),
    ]
    told = headings(pages, [Bookmark("Highlights", 1, 0)], 1.2)
    flat = [one for of_page in told for _, some in sorted(of_page.items()) for one in some]
    assert [(one.level, one.title) for one in flat] == [(1, "Highlights"), (2, "Dividend"), (2, "Guidance")]


@pytest.mark.parametrize("label", ["Chapter 2", "Hoofdstuk 2", "Kapitel 2", "Rozdział II"])
def test_word_and_a_number_above_a_title_are_its_number_in_any_language(label: str) -> None:
    lines = [said(label, size=14.0), said("The Mill", size=20.0)]
    assert found(page(TEXT, *[TEXT] * 5), page(*lines, *[TEXT] * 9, number=2)) == [(1, f"{label} The Mill")]


def test_label_above_a_smaller_title_is_a_heading_of_its_own() -> None:
    lines = [said("Exercise 2", size=20.0), said("Solution", size=14.0)]
    assert [title for _, title in found(page(TEXT, *[TEXT] * 5), page(*lines, *[TEXT] * 9))] == [
        "Exercise 2", "Solution",
    ]  # fmt: skip


def test_entry_of_the_outline_takes_a_label_above_it_and_no_other_line() -> None:
    lines = [
        said("Part IV", size=14.0), said("Of Mills", size=20.0), TEXT, said("quay, 36"), said("A", bold=True),
    ]  # fmt: skip
    found = headings([page(*lines)], [Bookmark("Of Mills", 1, 0), Bookmark("A", 2, 0)], 1.2)
    titles = [(at, one.title) for at, some in found[0].items() for one in some]
    assert titles == [(0, "Part IV Of Mills"), (4, "A")]


@pytest.mark.parametrize(
    "title", ["Item 8.01. Other Events.", "Section 2.01 The Advances.", "GUIDANCE FOR 2023:"]
)
def test_numbered_or_capital_title_that_ends_with_a_stop_is_a_heading(title: str) -> None:
    pages = [page(TEXT, *section(said(title, bold=True)), *section(said(title[:-2], bold=True)))]
    assert [one for _, one in found(*pages)] == [title, title[:-2]]


def test_article_and_its_title_are_one_heading_above_its_sections() -> None:
    lines: list[Line | str] = []
    for article, one, other in (("ARTICLE I", "1.01", "1.02"), ("ARTICLE II", "2.01", "2.02")):
        lines += ["", said(article, bold=True), said("THE MILL", bold=True), *[TEXT] * 3]
        for number in (one, other):
            lines += section(said(f"Section {number} The Quay.", bold=True))
    assert found(page(TEXT, *lines))[:3] == [
        (1, "ARTICLE I THE MILL"), (2, "Section 1.01 The Quay."), (2, "Section 1.02 The Quay."),
    ]  # fmt: skip


NAMES = ["The Mill", "The Town", "The Quay", "The Inn"]


def spread(*parts: str) -> Line:
    """Words with wide gaps between them, as above the columns of a table."""
    words = tuple(Word(part, 50.0 + 150 * at, 100.0 + 150 * at, 0) for at, part in enumerate(parts))
    return said(" ".join(parts), bold=True, right=words[-1].right, words=words)


def test_header_of_a_table_that_is_not_joined_heads_nothing() -> None:
    for lines in [
        [spread("Votes For", "Votes Against")],
        [said("($ in millions)", bold=True), said("Gross Carrying Amount", bold=True)],
        [said("December 31, 2022", bold=True), said("Level", bold=True), said("Carrying Value", bold=True)],
    ]:
        pages = [page(TEXT, *section(*lines), *under(*NAMES, bold=True), *[TEXT] * 5)]
        assert [title for _, title in found(*pages)] == NAMES


def test_titles_at_the_top_of_most_pages_are_headings_if_each_is_another() -> None:
    pages = [
        PageLines("1", 800, (said(f"Note {n} - {name}", bold=True), *page("", "", "", *[TEXT] * 9).lines))
        for n, name in enumerate(("Mills", "Quays", "Bridges", "Wells", "Inns", "Roads"), 1)
    ]
    assert len(found(*pages)) == 6


def test_headings_of_a_page_in_small_type_are_measured_by_its_own_text() -> None:
    small = [said(TEXT, size=8.0)] * 5
    pages = [
        page(*under("The Mill", "The Quay", bold=True), *[TEXT] * 9),
        page(*small, "", said("Reconciliation of debt", size=8.0, bold=True), *small),
    ]
    assert [title for _, title in found(*pages)] == ["The Mill", "The Quay", "Reconciliation of debt"]


def test_columns_of_a_header_at_several_heights_head_nothing() -> None:
    top = page(TEXT, *under(*NAMES, bold=True), TEXT)
    lowest = top.lines[-1].baseline
    places = (("Common", 100, 0), ("Stock", 100, 12), ("Paid-in", 200, 0), ("Capital", 200, 12))
    heads = [
        replace(said(name, bold=True), left=left, right=left + 60, baseline=lowest - 40 - down)
        for name, left, down in places
    ]
    pages = [replace(top, lines=(*top.lines, *heads)), page(*[TEXT] * 20)]
    assert [title for _, title in found(*pages)] == NAMES
