"""The pages for people and their site: links, code blocks, commands and messages are those of the program."""

import ast
import importlib.util
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from benchmarks.__main__ import NAMES
from ingestor.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
EXAMPLES = ROOT / "examples/README.md"
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


# --- The code in pages, and what they name ---


def code_of(page: Path) -> list[str]:
    """Lines of shell blocks, and what stands between backticks."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [
        line.partition("#")[0].strip().removeprefix("$ ") for block in blocks for line in block.splitlines()
    ]
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [*filter(None, lines), *(" ".join(said.split()) for said in re.findall(r"`([^`]+)`", outside))]


def test_benchmarks_and_targets_that_docs_name_exist() -> None:
    code = [line for page in PAGES for line in code_of(page)]
    benchmarks = {name for line in code for name in re.findall(r"-m benchmarks (\w+)", line)}
    assert benchmarks <= set(NAMES)
    targets = {name for line in code for name in re.findall(r"^make ([a-z-]+)", line)}
    assert targets <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_commands_and_options_that_docs_name_exist() -> None:
    group: Any = get_command(app)
    for name, line in [(page.name, line) for page in PAGES for line in code_of(page)]:
        words = re.split(r"[;|&<>]", line)[0].split()
        if len(words) < 2 or words[0].rpartition("/")[2] != "ingestor" or not words[1].isalpha():
            continue
        assert words[1] in group.commands, f"{name}: {line}"
        options = {word.partition("=")[0].rstrip("`,.)") for word in words[2:] if re.match(r"--?[a-z]", word)}
        assert options <= options_of(group.commands[words[1]]), f"{name}: {line}"


def test_commands_without_an_option_that_all_have_are_named() -> None:
    group: Any = get_command(app)
    text = " ".join((ROOT / "docs/commands.md").read_text("utf-8").split())
    said = re.findall(r"Every command except ([^.]+?) takes `(--[a-z]+)", text)
    assert [option for _, option in said] == ["--config", "--json"]
    for names, option in said:
        shown = {name: each for name, each in group.commands.items() if not each.hidden}
        lacking = {name for name, each in shown.items() if option not in options_of(each)}
        assert lacking == set(re.findall("`([a-z]+)`", names)), option


def options_of(command: Any) -> set[str]:
    named = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return {*named, "--help", "-h"}


BLOCK = re.compile(r"(?ms)^ *```(\w+)\n(.*?)^ *```$")
SITE = ROOT / ".cache/site-venv/bin/mkdocs"


def fault(language: str, code: str) -> str | None:
    """Return why a block of code is not valid in its language, or None."""
    try:
        if language == "python":
            ast.parse(code)
        elif language == "json" and "..." not in code:
            rows = code.splitlines()
            lines = len(rows) > 1 and all(row.startswith("{") and row.endswith("}") for row in rows)
            for each in rows if lines else [f"{{{code}}}" if code.startswith('"') else code]:
                json.loads(each)  # a value, a value a line, or a key of a larger object
        elif language == "yaml":
            [*yaml.safe_load_all(code)]
        elif language == "sh":
            done = subprocess.run(["bash", "-n"], input=code, capture_output=True, text=True, check=False)
            return done.stderr or None
    except (SyntaxError, ValueError, yaml.YAMLError) as error:
        return str(error)
    return None


def test_code_blocks_are_valid() -> None:
    found = [
        (page.name, code[:60], why)
        for page in [*PAGES, EXAMPLES]
        for language, code in BLOCK.findall(page.read_text("utf-8"))
        if (why := fault(language, code))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("language", "code"), [("python", "x = ("), ("json", "{'a': 1}"), ("yaml", "a: [1"), ("sh", "if true")]
)
def test_invalid_code_block_is_seen(language: str, code: str) -> None:
    assert fault(language, code)


def test_messages_that_errors_page_explains_are_those_of_ingestor() -> None:
    ours = (ROOT / "docs/errors.md").read_text("utf-8").partition("## Messages of ingestor")[2]
    table = (ROOT / "docs/running.md").read_text("utf-8").partition("## When something is wrong")[2]
    program = "\n".join(file.read_text("utf-8") for file in (ROOT / "ingestor").rglob("*.py"))
    program = re.sub(r"\"\n\s*f?\"", "", program)
    cells = [row.split(" | ")[0] for row in table.splitlines() if row.startswith("| `")]
    messages = re.findall(r"(?m)^### (.+)$", ours) + re.findall("`([^`]+)`", "\n".join(cells))
    parts = [part.strip(" :,()") for message in messages for part in message.split("…")]
    filled = "documents vanished", "without landlock", "without network namespace"  # with numbers and names
    assert len(parts) > 40
    assert [part for part in parts if part not in program and part not in filled] == []


def test_site_is_assembled_with_references_of_all_commands_and_methods(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "website/assemble.py", tmp_path / "pages"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    options, api = (tmp_path / "pages" / name for name in ("options.md", "api.md"))
    assert {"## try", "## sync", "## evaluate"} <= set(options.read_text("utf-8").splitlines())
    assert {"### search", "### SyncReport", "### Connector"} <= set(api.read_text("utf-8").splitlines())
    index = (tmp_path / "pages/llms.txt").read_text("utf-8")
    missing = [page.name for page in ROOT.glob("docs/*.md") if f"({page.stem}.html)" not in index]
    assert missing == ["README.md"]
    named = re.findall(r": (\S+\.md)$", (ROOT / "website/mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert [name for name in named if not (tmp_path / "pages" / name).exists()] == []
    assert {path.name for path in (tmp_path / "pages").glob("*.md")} <= {*named}
    wide = [
        line
        for block in re.findall(r"(?ms)^```python\n(.*?)^```", api.read_text("utf-8"))
        for line in block.splitlines()
    ]
    assert max(map(len, wide)) <= 100
    bare = [line for line in index.splitlines() if line.startswith("- ") and not line.endswith(".")]
    assert bare == []


def test_link_to_a_file_that_is_no_page_becomes_its_name() -> None:
    spec = importlib.util.spec_from_file_location("assemble", ROOT / "website/assemble.py")
    assert spec is not None
    assert spec.loader is not None
    assemble = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(assemble)
    pages = {ROOT / "docs/a.md": "a.md", ROOT / "README.md": "index.md"}
    text = "[home](../README.md#install) [file](../pyproject.toml) [b](https://b.example) ![p](page.png)"
    assert assemble.moved(ROOT / "docs/a.md", text, pages) == (
        "[home](index.md#install) `file` [b](https://b.example) ![p](page.png)"
    )


@pytest.mark.slow
@pytest.mark.skipif(not SITE.exists(), reason="make site has made no environment")
def test_site_is_built_without_a_broken_link(tmp_path: Path) -> None:
    done = subprocess.run(["make", "site"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (ROOT / "build/site/llms.txt").exists()
    assert (ROOT / "build/site/search/search_index.json").exists()
