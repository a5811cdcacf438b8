import errno
from pathlib import Path

import pytest

from ingestor.connectors.programs.loading import Given, Spool
from ingestor.ports import Stale, Transient

ONE = Given("a", b"one\0two", "a.md", "uri", (("x", 1),))


def test_spooled_document_is_returned_unchanged() -> None:
    kept = Spool(100)
    item = kept.keep(ONE)
    assert (item.key, item.version, item.uri, item.size, item.extra) == (
        "a",
        ONE.version,
        "uri",
        7,
        (("x", 1),),
    )
    blob = kept.fetch(item)
    assert (blob.data, blob.name) == (b"one\0two", "a.md")
    kept.forget_others(set())
    with pytest.raises(Stale):
        kept.fetch(item)


def test_full_disk_leaves_no_half_of_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, whole = Spool(100), Path.write_bytes

    def half(path: Path, data: bytes) -> int:
        whole(path, data[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", half)
        with pytest.raises(Transient, match=r"uri can't be kept on disk: No space left on device"):
            kept.keep(ONE)
    assert kept.fetch(kept.keep(ONE)).data == b"one\0two"
