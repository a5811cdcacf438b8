import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingestor.connectors.programs.loading import Loading, PythonOptions, build_python
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient
from tests.connectors.laws import ConnectorLaws, listed
from tests.connectors.loaders import LoadedDocument
from tests.connectors.program_worlds import ShelfWorld
from tests.waiting import wait

HERE = "tests.connectors.loaders"
INSTALL = "install it, or correct its name"


class TestLaws(ConnectorLaws):
    @pytest.fixture
    def world(self, tmp_path: Path) -> ShelfWorld:
        return ShelfWorld(tmp_path / "root")


def of(name: str, **options: Any) -> Loading:
    call = name if ":" in name else f"{HERE}:{name}"
    root = Path(__file__).parents[3]
    return build_python(PythonOptions.model_validate({"call": call, "folder": root, **options}))


def giving(*documents: Any, **options: Any) -> Loading:
    return of("given", arguments={"documents": list(documents)}, **options)


def test_loader_and_reader_are_listed_and_fetched() -> None:
    loader = of("Loader", arguments={"texts": ["# One", "Two"]}, ending=".txt")
    items = listed(loader)
    assert items.keys() == {"book.pdf", "book.pdf#2"}
    assert items["book.pdf#2"].extra == (("page", 1), ("source", "book.pdf"))
    blob = loader.fetch(items["book.pdf"])
    assert (blob.data, blob.name) == (b"# One", "text.txt")
    reader = of("Reader", load={"names": ["a", "b"]})
    items = listed(reader)
    assert items.keys() == {"https://a", "https://b"}
    assert reader.fetch(items["https://b"]).data == b"on b"


@pytest.mark.parametrize(
    "changed",
    [
        {"key": "a", "text": "two"},
        {"key": "a", "text": "one", "uri": "x"},
        {"key": "a", "text": "one", "metadata": {"author": "Ada"}},
        {"key": "a", "data": b"one"},
    ],
)
def test_shown_fields_of_a_record_are_part_of_the_version(changed: dict[str, Any]) -> None:
    [before], [after] = giving({"key": "a", "text": "one"}).scan(), giving(changed).scan()
    assert before.version != after.version


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ({"key": 0}, "0"),
        ({"key": "a", "metadata": {"source": "b"}}, "a"),
        ({"metadata": {"id": 7, "source": ""}}, "7"),
        ({"metadata": {"url": "u", "source": "s"}}, "s"),
    ],
)
def test_change_of_a_field_changes_the_version(document: dict[str, Any], key: str) -> None:
    assert listed(giving({"text": "x", **document})).keys() == {key}


def test_id_distinguishes_documents_if_declared() -> None:
    reader = of("Reader", load={"names": ["a"]}, key=["id_"])
    assert listed(reader).keys() == {"random"}


def test_equal_texts_are_two_documents() -> None:
    connector = giving({"key": "a.md", "data": b"same"}, {"key": "b.txt", "data": b"same"})
    items = listed(connector)
    assert [connector.fetch(items[key]).name for key in ("a.md", "b.txt")] == ["a.md", "b.txt"]


def test_metadata_that_is_no_value_and_text_that_is_none() -> None:
    odd = {"address": object(), "none": None, "number": 1.5, "text\ud800": "a\ud800"}
    [item] = giving({"key": "k\ud800", "text": "t\ud800", "metadata": odd}).scan()
    assert item.key == "k?"
    assert item.extra == (("number", 1.5), ("text?", "a?"))


def _write_pages(folder: Path, pages: dict[str, str]) -> None:
    for file in folder.iterdir():
        file.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text)


def test_changed_document_is_stale(tmp_path: Path) -> None:
    connector = of("files_below", arguments={"folder": str(tmp_path)})
    _write_pages(tmp_path, {"a": "one", "b": "two"})
    first = listed(connector)
    _write_pages(tmp_path, {"a": "one", "b": "three"})
    second = listed(connector)
    with pytest.raises(Stale):
        connector.fetch(first["b"])
    assert connector.fetch(first["a"]).data == b"one"
    assert connector.fetch(second["b"]).data == b"three"


def test_full_disk_is_reported_and_keeps_the_documents_of_the_last_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector, write = of("files_below", arguments={"folder": str(tmp_path)}), os.pwrite
    _write_pages(tmp_path, {"a": "one"})
    first = listed(connector)
    _write_pages(tmp_path, {"a": "other"})

    def half(file: int, data: memoryview, place: int) -> int:
        if len(data) < 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[:2], place)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(
        Transient, match=r"a can't be stored on disk, will be retried: No space left on device"
    ):
        list(connector.scan())
    assert connector.fetch(first["a"]).data == b"one"
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: write(file, data[:2], place))
    assert connector.fetch(listed(connector)["a"]).data == b"other"


def test_source_after_a_restart_is_listed_before_it_is_fetched() -> None:
    [item] = giving({"key": "a", "text": "one"}).scan()
    again = giving({"key": "a", "text": "one"})
    with pytest.raises(Stale):
        again.fetch(item)
    assert list(again.scan()) == [item]
    assert again.fetch(item).data == b"one"


@pytest.mark.parametrize(
    ("connector", "message"),
    [
        (
            of("given", arguments={"documents": [{"key": "a", "text": "one"}], "fail": "cut"}),
            "given failed: RuntimeError: cut",
        ),
        (of("unlucky"), "failed: TypeError: unexpected keyword argument"),
        (of("leaving", arguments={"how": "exit"}), "failed: SystemExit: enough"),
        (of("leaving", arguments={"how": "silently"}), "ended before it had returned all documents"),
        (of("leaving", arguments={"how": "abort"}), "ended by SIGABRT"),
    ],
)
def test_listing_that_breaks_off_raises(connector: Loading, message: str) -> None:
    scan = connector.scan()
    assert next(scan).key == "a"
    with pytest.raises(Transient, match=message):
        next(scan)


def _is_gone(pid: int) -> bool:
    return bool(wait(lambda: not Path(f"/proc/{pid}").exists()))


def _awaited(file: Path) -> int:
    return int(wait(lambda: file.exists() and file.read_text()))


def test_code_that_hangs_is_ended_when_its_time_is_up(tmp_path: Path) -> None:
    connector = of("hanging", arguments={"pids": str(tmp_path / "pid")}, timeout="3s")
    with pytest.raises(Transient, match="longer than `timeout`"):
        list(connector.scan())
    assert _is_gone(_awaited(tmp_path / "pid"))


def test_code_that_hangs_is_ended_with_its_reader(tmp_path: Path) -> None:
    scan = of("hanging", arguments={"pids": str(tmp_path / "pid")}).scan()
    next(scan)
    pid = _awaited(tmp_path / "pid")
    assert isinstance(scan, Iterator)
    scan.close()  # type: ignore[attr-defined]
    assert _is_gone(pid)


def test_code_with_side_effects_runs_in_its_own_process(capfd: pytest.CaptureFixture[str]) -> None:
    here = Path.cwd()
    [item] = of("noisy", arguments={"text": "one"}).scan()
    assert item.key == "a"
    assert capfd.readouterr() == ("", "")
    assert ("NOISY" in os.environ, Path.cwd()) == (False, here)


def test_document_over_max_size_is_refused() -> None:
    connector = giving({"key": "a", "text": "x" * 11}, max_size=10)
    [item] = connector.scan()
    with pytest.raises(BadDocument, match=r"11 bytes, more than max_size \(10"):
        connector.fetch(item)


@pytest.mark.parametrize(
    ("connector", "message"),
    [
        (of("no_such_module:x"), INSTALL),
        (of("tests.connectors.no_such_module:x"), INSTALL),
        (of("nothing"), INSTALL),
        (of("Lodaer"), "did you mean Loader"),
        (of("given"), "missing a required argument: 'documents'; `arguments` and `secrets` may hold: docu"),
        (of("given", arguments={"documents": [], "x": 1}), "unexpected keyword argument 'x'; `arguments`"),
        (
            of("Loader", arguments={"texts": []}, load={"x": 1}),
            "`load` may hold: nothing",
        ),
        (of("HERE_IS_TEXT"), INSTALL),
        (of("builtins:__name__"), "is not a callable object"),
        (of("builtins:dict", arguments={"a": 1}), "returns dict, which is not a list of documents"),
        (of("wanting"), r"can't be used \(No module named 'no_such_library'\).*pip install no_such_library"),
        (giving({"key": "a"}), "document 1 of .* has neither `text` nor `data`"),
        (giving(LoadedDocument("text")), "no key and none of source, file_path, url, id: set `key`"),
    ],
)
def test_unusable_code_needs_a_person(connector: Loading, message: str) -> None:
    with pytest.raises(NeedsHuman, match=message):
        list(connector.scan())


def test_secrets_are_given_and_not_shown() -> None:
    options = PythonOptions.model_validate(
        {"call": f"{HERE}:given", "secrets": {"fail": "s3cret"}, "arguments": {"documents": []}}
    )
    with pytest.raises(Transient, match="RuntimeError: …") as raised:
        list(build_python(options).scan())
    assert "s3cret" not in repr((raised.value, options))
