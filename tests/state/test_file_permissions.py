import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ingestor.lexical.file import LexicalFile
from ingestor.ports import NeedsHuman
from ingestor.state import files, run_status
from ingestor.state.cache import VectorCache
from ingestor.state.files import hold, read_note
from ingestor.state.journal import Journal
from tests.connectors.folders import run_as_nobody


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def ours(name: str) -> bool:
    return name.startswith("journal")


def test_new_folder_is_for_this_user_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files.make(tmp_path / "a" / "state", ours)
    assert mode(tmp_path / "a" / "state") == 0o700
    assert not caplog.records


def test_folder_that_others_may_read_is_closed_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o755)
    (tmp_path / "state" / "journal").touch(0o644)
    for _ in range(2):
        files.make(tmp_path / "state", ours)
    assert mode(tmp_path / "state") == 0o700
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/state: permissions restricted to the owner"
    ]


def test_folder_that_holds_other_things_stays_open_but_ours_in_it_do_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for name in ("journal", "letter.txt"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o644)
    files.make(tmp_path, ours)
    assert [mode(path) for path in (tmp_path, tmp_path / "journal", tmp_path / "letter.txt")] == [
        0o755,
        0o600,
        0o644,
    ]


REFUSED = """
    from pathlib import Path
    from ingestor.ports import NeedsHuman
    from ingestor.state import files
    try:
        files.make(Path(sys.argv[1]), lambda name: True)
    except NeedsHuman as error:
        print(error)
    """


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_folder_of_another_user_is_refused(tmp_path: Path, mode: int) -> None:
    for above in [*tmp_path.parents][:-2]:
        above.chmod(0o755)
    tmp_path.chmod(mode)
    assert f"{tmp_path} belongs to root" in run_as_nobody(REFUSED, str(tmp_path))
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(NeedsHuman, match=r"belongs to nobody.* or take the folder over \(chown -R root"):
        files.make(tmp_path, ours)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_folder_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(NeedsHuman, match=r"other users can write to .*\(chmod go-w "):
        files.make(tmp_path, ours)
    tmp_path.chmod(mode & 0o755)
    files.make(tmp_path, ours)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_folder_of_a_group_is_refused_unless_it_is_the_users_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    files.make(tmp_path, ours)
    os.chown(tmp_path, 0, 65534)
    with pytest.raises(NeedsHuman, match="other users can write to"):
        files.make(tmp_path, ours)


def test_link_in_place_of_a_file_of_ours_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("theirs")
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    for name in ("journal.sqlite3", "cache.sqlite3", "lexical.sqlite3", "lock", "live.json", "check-a.json"):
        (folder / name).symlink_to(target)
    with pytest.raises(NeedsHuman, match="is a link"):
        files.make(folder, lambda name: True)
    deeds: list[Callable[[], object]] = [
        lambda: Journal(folder / "journal.sqlite3"),
        lambda: VectorCache(folder / "cache.sqlite3", 10**6),
        lambda: LexicalFile(folder / "lexical.sqlite3"),
        lambda: hold(folder / "lock"),
    ]
    for deed in deeds:
        with pytest.raises(NeedsHuman, match="is a link"):
            deed()
    (folder / f"live.json.{os.getpid()}").symlink_to(target)
    run_status.write_live(folder, run_status.Live(pid=7))
    assert run_status.read_live(folder).pid == 7
    (folder / "chroma.log").symlink_to(target)
    with pytest.raises(OSError, match="symbolic"):
        files.open_own(folder / "chroma.log", os.O_WRONLY | os.O_CREAT)
    assert run_status.read_checks(folder) == []
    assert read_note(folder / "lock") == []
    assert target.read_text() == "theirs"


def test_empty_folder_of_the_user_stays_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o775)
    files.make(tmp_path / "mine", ours)
    assert mode(tmp_path / "mine") == 0o775
    assert not caplog.records


def test_file_that_cannot_be_closed_leaves_no_other_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"journal{number}" for number in range(5)]
    for name in names:
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o644)
    real = Path.chmod

    def chmod(path: Path, mode: int) -> None:
        if path.name == "journal2":
            raise PermissionError(1, "Operation not permitted")
        real(path, mode)

    monkeypatch.setattr(Path, "chmod", chmod)
    files.make(tmp_path, ours)
    assert [mode(tmp_path / name) for name in names] == [0o600, 0o600, 0o644, 0o600, 0o600]
    assert [str(tmp_path / "journal2") in record.getMessage() for record in caplog.records] == [True, False]
