"""Sources of one config, and the program's own files, must not get in each other's way."""

from pathlib import Path

import pytest

from ingestor.connectors.folder.connector import Folder, FolderOptions
from tests.config.written import load_text, mistakes, source


def two(first: str, second: str, collection: str = "abc") -> str:
    return (
        f"sources:\n  - {{name: a, kind: folder, collection: abc, {first}}}\n"
        f"  - {{name: b, kind: folder, collection: {collection}, {second}}}\n"
    )


@pytest.mark.parametrize("path", ["x", "./x/", "y/../x", "/conf/x"])
def test_folder_listed_twice_for_a_collection_is_refused(path: str) -> None:
    same = "lists the same documents for the same collection as sources[0] (a): remove one of them"
    assert mistakes(two("path: x", f"path: {path}")) == [f"3: sources[1]: {same}"]
    assert load_text(two("path: x", f"path: {path}", "other")).warnings == ()


@pytest.mark.parametrize(
    ("first", "second", "warned"),
    [
        ("path: x", "path: x/y", True),
        ("path: x/y", "path: x", True),
        ("path: x", "path: x, include: ['*.md']", True),
        ("path: /", "path: x", True),
        ("path: x", "path: xy", False),
        ("path: x", "path: y", False),
    ],
)
def test_overlapping_folders_of_a_collection_give_a_warning(first: str, second: str, warned: bool) -> None:
    safe = "state: .state\nchroma: {host: db}\n"
    warning = (
        "sources[1].path: overlaps with sources[0] (a), which feeds the same collection: "
        "files in both are indexed twice"
    )
    found = [f"{problem.line}: {problem}" for problem in load_text(safe + two(first, second)).warnings]
    assert found == [f"5: {warning}"] * warned
    assert load_text(safe + two(first, second, "other")).warnings == ()


@pytest.mark.parametrize(("folder", "port"), [("x", 8100), ("y", 8101)])
def test_endpoint_of_two_collections_is_accepted(folder: str, port: int) -> None:
    push = "  - {{name: {}, collection: {}, kind: push, token: '${{T:-t}}', folder: {}, port: {}}}\n"
    text = "sources:\n" + push.format("a", "abc", "x", 8100) + push.format("b", "other", folder, port)
    assert len(load_text(text).sources) == 2


def own(folder: str, key: str, exclude: str) -> str:
    files = "whose files would become documents and never stop changing"
    return f"sources[0].path: holds {folder} ({key}), {files}: {exclude}move it out of source 'a'"


STATE = own("/conf/docs/state", "state", "exclude it (exclude: ['/state/']) or ")
HIDDEN = own("/conf/docs/.state", "state", "exclude it (exclude: ['/.state/']) or ")
CHROMA = own("/conf/docs/x/chroma", "chroma.path", "exclude it (exclude: ['/x/chroma/']) or ")


@pytest.mark.parametrize(
    ("places", "keys", "expected"),
    [
        ("state: docs/state", {}, [STATE]),
        ("state: docs/state", {"include": ["**/*.json"]}, [STATE]),
        ("state: docs/state", {"include": ["**/*.md"]}, []),
        ("state: docs/state", {"exclude": ["/state/"]}, []),
        ("state: docs/state", {"exclude": ["state/*"]}, []),
        ("state: docs/state", {"exclude": ["state", "!state"]}, [STATE]),
        ("state: docs/.state", {}, []),
        ("state: docs/.state/x", {}, []),
        ("state: docs/.state", {"hidden": True}, [HIDDEN]),
        ("state: docs", {}, [own("/conf/docs", "state", "")]),
        ("state: docs-state", {}, []),
        ("state: .", {}, []),
        ("chroma: {path: docs/x/chroma}", {}, [CHROMA]),
        ("chroma: {path: docs/x/chroma, embedded: true}", {}, [CHROMA]),
        ("chroma: {path: docs/x/chroma}", {"exclude": ["*.sqlite3"]}, [CHROMA]),
        ("chroma: {path: docs/x/chroma}", {"exclude": ["x/"]}, []),
        ("chroma: {host: db}", {"path": "."}, []),
    ],
)
def test_source_that_lists_own_files_is_refused(
    places: str, keys: dict[str, object], expected: list[str]
) -> None:
    text = f"{places}\n{source(**keys)}"
    if expected:
        assert mistakes(text) == [f"2: {message}" for message in expected]
    else:
        assert load_text(text).sources[0].name == "a"


def test_folder_options_match_the_listing(tmp_path: Path) -> None:
    """``takes``, which the check of our own files rests on, agrees with a real listing."""
    names = ["a.md", "b.txt", ".h.md", "x/a.md", "x/.h/a.md", "x/y/b.txt", "x/y/~$a.md", "z/a.md", "z/k.md"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for keys in (
        {},
        {"include": ["*.md"]},
        {"include": ["x/", "!x/y/"]},
        {"exclude": ["z/*", "!z/k.md"]},
        {"exclude": ["x"]},
        {"hidden": True},
        {"include": ["/x/**/*.txt", "z"]},
    ):
        options = FolderOptions.model_validate({"path": tmp_path, **keys})
        listed = {item.key for item in Folder(options).scan()}
        assert listed == {name for name in names if options.takes(tmp_path / name)}, keys
        assert listed
