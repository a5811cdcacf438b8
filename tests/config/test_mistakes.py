"""Bad configs, and what is reported of each with its line. mistakes.txt has a config above its messages.

    INGESTOR_GOLDEN=write .venv/bin/python -m pytest tests/config/test_mistakes.py

writes the messages again.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ingestor.config.file import load
from ingestor.config.models import ConfigError, Settings, SourceSettings
from ingestor.connectors.folder.connector import FolderOptions
from ingestor.registry import Options
from tests.config.written import ROOT, SOURCE, mistakes, source

WRITTEN = Path(__file__).with_name("mistakes.txt")
CONFIGS: dict[str, Callable[[str], str]] = {
    "added to a config of one source": lambda text: text + SOURCE,
    "keys of the source": lambda text: source(**yaml.safe_load(text)),
    "whole configs": str,
}


def reported(written: str) -> str:
    """Return the configs with the messages of today."""
    _, *parts = re.split(r"^## (.*)\n", written, flags=re.MULTILINE)
    found = list[str]()
    for title, cases in zip(parts[::2], parts[1::2], strict=True):
        found.append(f"## {title}\n")
        for case in re.findall(r"((?:(?!=>).*\n)+)(?:=>.*\n)+", cases):
            found += [case, *(f"=> {message}\n" for message in mistakes(CONFIGS[title](case)))]
    return "".join(found)


def test_mistakes_of_configs_are_reported_with_line_and_remedy() -> None:
    found = reported(WRITTEN.read_text("utf-8"))
    if os.environ.get("INGESTOR_GOLDEN") == "write":
        WRITTEN.write_text(found, "utf-8")
    assert found.splitlines() == WRITTEN.read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0: is empty; `ingestor init` writes a commented config"),
        ("state: a\nx: \x07\n", "2: not valid YAML: the character U+0007 is not allowed"),
        ("[" * 700, "0: is nested too deeply: remove levels of nesting"),
        (f"scan_every: '{'9' * 400}'\n{SOURCE}", "1: scan_every: must be at most 3650d"),
        (f"cache: {{size: '{'9' * 400}'}}\n{SOURCE}", "1: cache.size: must be at most 1000000TB"),
        (
            SOURCE + "log:\n\tlevel: info\n",
            "4: not valid YAML: while scanning for the next token found character '\\t' that cannot start "
            "any token (indent with spaces, not with tabs)",
        ),
    ],
)
def test_mistake_of_odd_characters_is_reported(text: str, message: str) -> None:
    assert mistakes(text) == [message]


@pytest.mark.parametrize("key", ["name", "kind", "path", "collection"])
def test_source_requires_its_keys(key: str) -> None:
    lines = {"name": "a", "kind": "folder", "path": "docs", "collection": "abc"}
    kept = "\n    ".join(f"{name}: {value}" for name, value in lines.items() if name != key)
    assert mistakes(f"sources:\n  -\n    {kept}\n") == [f"3: sources[0].{key}: is required"]
    assert mistakes(f"sources:\n  -\n    {kept}\n    {key}:\n") == [f"6: sources[0].{key}: is required"]


@pytest.mark.parametrize(
    ("top", "key"),
    [("state: {}", "state"), ("state: {}/deeper", "state"), ("chroma: {{path: {}}}", "chroma.path")],
)
def test_file_in_place_of_own_folder_is_named_with_remedy(tmp_path: Path, top: str, key: str) -> None:
    (tmp_path / "notes").touch()
    assert mistakes(f"{top.format(tmp_path / 'notes')}\n{SOURCE}") == [
        f"1: {key}: {tmp_path}/notes is a file, and must be a folder: move it away, or choose another path"
    ]


def failure(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert caught.value.file == str(file)
    return str(caught.value).replace(str(file), "FILE")


def test_file_without_config_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    assert failure(file) == "FILE: does not exist; `ingestor init` writes one, --config names another"
    assert failure(tmp_path) == "FILE: can't be read: Is a directory"
    assert failure(file / "x").startswith("FILE: ")
    file.write_bytes("state: a\nx: Grüße".encode("latin-1"))
    assert failure(file) == "FILE:2: is not UTF-8 text: save the file as UTF-8"
    assert failure(file / "below") == "FILE: can't be read: Not a directory"
    file.write_text("workers: 0\n" + SOURCE)
    assert failure(file) == "FILE:1: workers: must be at least 1 or a mapping of keys to values, not 0"


def test_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode())
    assert load(file, {}).state == tmp_path / ".ingestor"


_LINES = (ROOT / "ingestor/templates/config.yaml").read_text().splitlines()
_SCRAPS = st.sampled_from(
    [
        *_LINES, *"\t \"'[]{}:,#&*!|>%@`?-~$", "${", "${A}", "$${A}", "${A:-", "<<: *a", "&a", "*a", "---",
        "\n  ", "\0", "\ud800", "file:", "~x/", "null", "1e999", "9" * 30,
    ]
)  # fmt: skip
_NESTED = {"level", "size", "text", "token", "host", "embedded", "strategy", "x", "levels"}
_KEYS = st.sampled_from(sorted({*Settings.model_fields, *SourceSettings.model_fields, *_NESTED}))
_LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(
        ["folder", "fixed", "hashing", "hierarchical", "5m", "abc", "1GB", "~", "file:/x", "${A}", "\0"]
    ),
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=6),
    max_leaves=20,
)
_GOOD = {"name": "a", "kind": "folder", "path": "docs", "collection": "abc"}


def _change(model: type[Options]) -> st.SearchStrategy[dict[str, Any]]:
    return st.just({}) | st.dictionaries(st.sampled_from(list(model.model_fields)), _VALUES, max_size=1)


_FIRST = st.sampled_from([{"path": "more"}, {"path": "more/x"}, {"path": "."}, {"collection": "other"}])
_ALMOST = st.builds(
    lambda top, first, second: (
        {"sources": [_GOOD | first, _GOOD | {"name": "b", "path": "more"} | second]} | top
    ),
    *(_change(Settings), _FIRST | _change(SourceSettings), _change(FolderOptions)),
)
_TEXTS = st.one_of(
    st.text(),
    st.lists(_SCRAPS, max_size=12).map("\n".join),
    st.lists(_SCRAPS, max_size=12).map("".join),
    (_ALMOST | st.dictionaries(_KEYS, _VALUES, max_size=8)).map(
        lambda tree: yaml.safe_dump(tree, allow_unicode=True)
    ),
)


@given(text=_TEXTS)
def test_config_of_any_text_raises_config_error_only(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load(file, {"A": "a"})
    except ConfigError as error:
        lines = [problem.line for problem in error.problems]
    else:
        return
    assert lines and lines == sorted(lines)
    assert lines[0] >= 0 and lines[-1] <= text.count("\n") + 2
