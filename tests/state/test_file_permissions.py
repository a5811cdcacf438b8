from pathlib import Path

import pytest

from ingestor.state import file_permissions
from tests.connectors.folders import run_as_nobody


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def ours(name: str) -> bool:
    return name.startswith("journal")


def test_a_new_folder_is_for_this_user_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file_permissions.make(tmp_path / "a" / "state", ours)
    assert mode(tmp_path / "a" / "state") == 0o700
    assert not caplog.records


def test_a_folder_that_others_may_read_is_closed_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o755)
    (tmp_path / "state" / "journal").touch(0o644)
    for _ in range(2):
        file_permissions.make(tmp_path / "state", ours)
    assert mode(tmp_path / "state") == 0o700
    assert [record.getMessage() for record in caplog.records] == [
        f"other users could read {tmp_path}/state: it is closed to them now"
    ]


def test_a_folder_that_holds_other_things_stays_open_but_ours_in_it_do_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for name in ("journal", "letter.txt"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o644)
    (tmp_path / "journal-link").symlink_to("letter.txt")
    file_permissions.make(tmp_path, ours)
    assert [mode(path) for path in (tmp_path, tmp_path / "journal", tmp_path / "letter.txt")] == [
        0o755,
        0o600,
        0o644,
    ]


def test_a_folder_of_another_user_is_used_and_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "journal").touch()
    for above in [*tmp_path.parents][:-2]:
        above.chmod(0o755)
    said = run_as_nobody(
        """
        import logging
        from pathlib import Path
        from ingestor.state import file_permissions
        logging.basicConfig(stream=sys.stdout, format="%(message)s")
        file_permissions.make(Path(sys.argv[1]), lambda name: True)
        """,
        str(tmp_path),
    )
    assert "can't be closed to them: Operation not permitted" in said
    assert f"{tmp_path} and 1 more" in said


def test_an_empty_folder_of_the_user_stays_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o775)
    file_permissions.make(tmp_path / "mine", ours)
    assert mode(tmp_path / "mine") == 0o775
    assert not caplog.records


def test_one_file_that_can_not_be_closed_leaves_no_other_open(
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
    file_permissions.make(tmp_path, ours)
    assert [mode(tmp_path / name) for name in names] == [0o600, 0o600, 0o644, 0o600, 0o600]
    assert [str(tmp_path / "journal2") in record.getMessage() for record in caplog.records] == [True, False]
