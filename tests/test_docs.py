"""The pages for people: their links lead somewhere, and they name every command."""

import re
from functools import cache
from pathlib import Path

from typer.main import get_command

from ingestor.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?(?: \"[^\"]*\")?\)")
CELL = re.compile(r"\[[^\]]+\]\((\S+) \"(test_\w+)\"\)")


@cache
def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text("utf-8"))
    titles = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_link_leads_somewhere() -> None:
    broken = []
    for page in PAGES:
        for path, anchor in LINK.findall(page.read_text("utf-8")):
            target = page.parent / path if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.name}: {path}#{anchor}")
    assert broken == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text("utf-8")
    pages = {page.name for page in ROOT.glob("docs/*.md")} - {"README.md"}
    assert {name for name in pages if f"({name}" not in index} == set()


def test_commands_page_names_every_command() -> None:
    text = (ROOT / "docs/commands.md").read_text("utf-8")
    commands = getattr(get_command(app), "commands")  # noqa: B009 (typed as any command)
    assert {name for name in commands if not re.search(rf"`[^`\n]*\b{name}\b", text)} == set()


def test_readme_is_short_with_short_lines_and_narrow_tables() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) < 120
    assert [line for line in lines if len(line) > 120] == []
    assert [line for line in lines if line.startswith("|") and line.count("|") > 3] == []


def test_every_table_has_a_head_after_each_blank_line() -> None:
    """A blank line ends a table: rows after it are shown as plain text."""
    torn = []
    for page in PAGES:
        text = re.sub(r"(?ms)^```.*?^```", "", page.read_text("utf-8"))
        for block in text.split("\n\n"):
            rows = [line for line in block.strip().splitlines() if line.startswith("|")]
            if rows and not re.fullmatch(r"\|(?: *:?-+:? *\|)+", rows[min(1, len(rows) - 1)]):
                torn.append(f"{page.name}: {rows[0]}")
    assert torn == []


def test_tables_have_at_most_three_columns() -> None:
    """Except for the matrix of SECURITY.md, whose cells are links."""
    wide = []
    for page in PAGES:
        text = re.sub(r"(?ms)^```.*?^```", "", page.read_text("utf-8").partition("## Who can do what")[0])
        heads = re.findall(r"(?m)^\|(?: *:?-+:? *\|)+$", text)
        wide += [f"{page.name}: {head}" for head in heads if head.count("|") > 4]
    assert wide == []


def test_every_cell_of_who_can_do_what_has_its_test() -> None:
    section = (
        (ROOT / "SECURITY.md").read_text("utf-8").partition("## Who can do what")[2].partition("\n## ")[0]
    )
    _, _, *rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    assert len(rows) >= 7
    for deed, *cells in rows:
        assert len(cells) == 6, deed
        for cell in cells:
            found = CELL.findall(cell)
            assert found, (deed, cell)
            for file, test in found:
                assert f"def {test}(" in (ROOT / file).read_text("utf-8"), (deed, cell)
