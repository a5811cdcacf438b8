"""Texts that are no config, no YAML or no text at all: each is a ConfigError with a line."""

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
from tests.config.written import ROOT, SOURCE, mistakes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0: is empty; `ingestor init` writes a commented config"),
        ("# nothing\n\n", "0: is empty; `ingestor init` writes a commented config"),
        ("- a\n", "1: must be a mapping of keys to values"),
        ("just text\n", "1: must be a mapping of keys to values"),
        ("state: x\n", "1: sources: is required"),
        ("sources: []\n", "1: sources: must have at least 1 item"),
        ("sources: {name: a}\n", "1: sources: must be a list, not a mapping"),
        ("sources:\n  - a\n", "2: sources[0]: must be a mapping of keys to values, not text"),
        ("state: a\nworkers: 3\nstate: b\n" + SOURCE, "3: key 'state' is given twice, first on line 1"),
        (
            SOURCE + "log:\n\tlevel: info\n",
            "4: not valid YAML: while scanning for the next token found character "
            "'\\t' that cannot start any token (indent with spaces, not with tabs)",
        ),
        (
            "state: @x\n",
            "1: not valid YAML: while scanning for the next token found character '@' that cannot "
            "start any token (put a value that starts with this character in quotes)",
        ),
        (
            "state: a: b\n",
            "1: not valid YAML: mapping values are not allowed here (put a value that holds ': ' in "
            "quotes, and check the indentation)",
        ),
        ("state: a\nsources\n  - {name: a}\n", "2: not valid YAML: this line has no ':' behind its key"),
        (
            "state: [a\nworkers: 3\n",
            "2: not valid YAML: while parsing a flow sequence expected ',' or ']', but got "
            "':' (check the indentation and the brackets)",
        ),
        (
            "state: *x\n",
            "1: not valid YAML: found undefined alias (put a value that starts with * in quotes, or "
            "define the anchor above)",
        ),
        (
            "include: [*.md]\n",
            "1: not valid YAML: while scanning an alias expected alphabetic or numeric character, "
            "but found '.' (put a value that starts with * or & in quotes)",
        ),
        (
            "state: a\n---\nstate: b\n",
            "2: not valid YAML: expected a single document in the stream but found another "
            "document (a config is one document: remove the line '---' in its middle)",
        ),
        ("state: a\nx: \x07\n", "2: not valid YAML: the character U+0007 is not allowed"),
        ("[" * 5000, "0: is nested too deeply: remove levels of nesting"),
        (
            "state: !!binary x\n" + SOURCE,
            "1: state: tags are not allowed: put a value that starts with ! in quotes",
        ),
        (
            "chunking: {strategy: recursive, separators: &a [*a]}\n" + SOURCE,
            "1: chunking.separators[0]: an alias must not contain itself",
        ),
        ("? [a]\n: b\n" + SOURCE, "1: a key must be plain text"),
        ("<<: 3\n" + SOURCE, "1: << must be followed by an alias of another mapping"),
        (
            "state: ${NOPE}\n" + SOURCE,
            "1: state: environment variable NOPE is not set; set it, or write ${NOPE:-some default}",
        ),
        (
            "state: ${NO-PE}\n" + SOURCE,
            "1: state: '${' must open ${NAME} or ${NAME:-default}; write '$${' for a plain '${'",
        ),
    ],
)
def test_bad_yaml_is_reported_by_line(text: str, message: str) -> None:
    assert mistakes(text) == [message]


# --- files -------------------------------------------------------------------------------------------------


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


# --- any text at all ---------------------------------------------------------------------------------------

_LINES = (ROOT / "ingestor/templates/config.yaml").read_text().splitlines()


_SCRAPS = st.sampled_from(
    [
        *_LINES,
        *"\t \"'[]{}:,#&*!|>%@`?-~$",
        "${",
        "${A}",
        "$${A}",
        "${A:-",
        "<<: *a",
        "&a",
        "*a",
        "---",
        "\n  ",
        "\0",
        "\ud800",
        "file:",
        "~x/",
        "null",
        "1e999",
        "9" * 30,
    ]
)


_KEYS = st.sampled_from(
    [
        "state",
        "chroma",
        "embedding",
        "chunking",
        "cache",
        "sources",
        "name",
        "kind",
        "path",
        "collection",
        "log",
        "level",
        "size",
        "parsing",
        "text",
        "token",
        "host",
        "embedded",
        "strategy",
        "include",
        "scan_every",
        "x",
        "levels",
    ]
)


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
