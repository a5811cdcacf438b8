"""The config in force, kept in the state folder."""

from pathlib import Path

from ingestor.config.file import load
from ingestor.state import run_status


def test_keeping_a_config_deletes_what_killed_writers_left(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    (tmp_path / "docs").mkdir()
    (tmp_path / "state").mkdir()
    file.write_text("state: ./state\nsources: [{name: docs, kind: folder, path: ./docs, collection: docs}]\n")
    (tmp_path / "state" / f"{run_status.CONFIG_NAME}.4711").write_text("{}")
    run_status.keep_config(load(file, {}), 1.0)
    assert [each.name for each in (tmp_path / "state").iterdir()] == [run_status.CONFIG_NAME]
