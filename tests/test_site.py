"""The pages and their site: code blocks are valid, messages and references are those of the program."""

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])
BLOCK = re.compile(r"(?ms)^ *```(\w+)\n(.*?)^ *```$")
SITE = ROOT / ".cache/site-venv/bin/mkdocs"


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text("utf-8"))


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_are_valid(page: Path) -> None:
    found = [(code[:60], why) for language, code in blocks(page) if (why := fault(language, code))]
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
