import errno
import os
from collections.abc import Generator
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


def test_shown_fields_of_a_record_are_part_of_the_version() -> None:
    records: list[dict[str, Any]] = [
        {"key": "a", "text": "one"},
        {"key": "a", "text": "two"},
        {"key": "a", "text": "one", "uri": "x"},
        {"key": "a", "text": "one", "metadata": {"author": "Ada"}},
        {"key": "a", "data": b"one"},
    ]
    items = [item for record in records for item in giving(record).scan()]
    assert len({item.version for item in items}) == len(records)


def test_key_is_the_first_value_that_names_the_document() -> None:
    documents: dict[str, dict[str, Any]] = {
        "0": {"key": 0},
        "a": {"key": "a", "metadata": {"source": "b"}},
        "7": {"metadata": {"id": 7, "source": ""}},
        "s": {"metadata": {"url": "u", "source": "s"}},
    }
    assert list(listed(giving(*({"text": "x", **each} for each in documents.values())))) == list(documents)
    assert listed(of("Reader", load={"names": ["a"]}, key=["id_"])).keys() == {"random"}


def test_metadata_that_is_no_value_and_text_that_is_none() -> None:
    odd = {"address": object(), "none": None, "number": 1.5, "text\ud800": "a\ud800"}
    [item] = giving({"key": "k\ud800", "text": "t\ud800", "metadata": odd}).scan()
    assert item.key == "k?"
    assert item.extra == (("number", 1.5), ("text?", "a?"))


def test_changed_document_is_stale(tmp_path: Path) -> None:
    world = ShelfWorld(tmp_path / "root")
    for key, data in {"a.md": b"same", "b.txt": b"same"}.items():
        world.put(key, data)
    first = listed(world.connector)
    assert [world.connector.fetch(item).name for item in first.values()] == ["a.md", "b.txt"]
    world.put("b.txt", b"other")
    second = listed(world.connector)
    with pytest.raises(Stale):
        world.connector.fetch(first["b.txt"])
    assert world.connector.fetch(first["a.md"]).data == b"same"
    assert world.connector.fetch(second["b.txt"]).data == b"other"
    restarted = build_python(PythonOptions.model_validate(world.source))
    with pytest.raises(Stale):
        restarted.fetch(second["b.txt"])
    assert listed(restarted) == second


def test_full_disk_is_reported_and_keeps_the_documents_of_the_last_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, write = ShelfWorld(tmp_path / "root"), os.pwrite
    world.put("a", b"one")
    first = listed(world.connector)
    world.put("a", b"other")

    def half(file: int, data: memoryview, place: int) -> int:
        if len(data) < 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[:2], place)

    monkeypatch.setattr(os, "pwrite", half)
    message = r"a can't be stored on disk, will be retried: No space left on device"
    with pytest.raises(Transient, match=message):
        list(world.connector.scan())
    assert world.connector.fetch(first["a"]).data == b"one"
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: write(file, data[:2], place))
    assert world.connector.fetch(listed(world.connector)["a"]).data == b"other"


BREAKING = [
    (giving({"key": "a", "text": "x"}, secrets={"fail": "s3cret"}), "failed: RuntimeError: …"),
    (of("leaving", arguments={"how": "mistake"}), "failed: TypeError: unexpected keyword argument"),
    (of("leaving", arguments={"how": "exit"}), "failed: SystemExit: enough"),
    (of("leaving", arguments={"how": "silently"}), "ended before it had returned all documents"),
    (of("leaving", arguments={"how": "abort"}), "ended by SIGABRT"),
]


@pytest.mark.parametrize(("connector", "message"), BREAKING)
def test_listing_that_breaks_off_raises(connector: Loading, message: str) -> None:
    options = PythonOptions.model_validate({"call": "a:b", "secrets": {"fail": "s3cret"}})
    scan = connector.scan()
    assert next(scan).key == "a"
    with pytest.raises(Transient, match=message) as raised:
        next(scan)
    assert "s3cret" not in repr((raised.value, options)), "secrets are not shown"


@pytest.mark.parametrize("timeout", ["1s", "1h"])
def test_code_that_hangs_is_ended_with_its_reader_or_its_time(tmp_path: Path, timeout: str) -> None:
    pids = tmp_path / "pid"
    scan = of("hanging", arguments={"pids": str(pids)}, timeout=timeout).scan()
    assert isinstance(scan, Generator)
    next(scan)
    if timeout == "1s":
        with pytest.raises(Transient, match="longer than `timeout`"):
            next(scan)
    pid = wait(lambda: pids.exists() and pids.read_text())
    scan.close()
    assert wait(lambda: not Path(f"/proc/{pid}").exists())


def test_code_with_side_effects_runs_in_its_own_process(capfd: pytest.CaptureFixture[str]) -> None:
    here = Path.cwd()
    [item] = of("noisy", arguments={"text": "one"}).scan()
    assert item.key == "a"
    assert capfd.readouterr() == ("", "")
    assert ("NOISY" in os.environ, Path.cwd()) == (False, here)


def test_document_over_max_size_is_refused() -> None:
    connector = giving({"key": "a", "text": "x" * 11}, max_size=10)
    [item] = connector.scan()
    with pytest.raises(BadDocument, match=r"11 bytes are more than max_size \(10"):
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
        (of("Loader", arguments={"texts": []}, load={"x": 1}), "`load` may hold: nothing"),
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
