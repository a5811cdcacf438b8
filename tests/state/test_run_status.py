"""Small files in the state folder: the last result of each check, and the config in force."""

from dataclasses import replace
from pathlib import Path

from ingestor.config.file import load
from ingestor.state.run_status import CONFIG_NAME, CheckResult, keep_config, read_checks, write_check

RESULT = CheckResult("docs", "faq.csv", 0.75, 0.1, False, 1000.0)


def test_last_result_of_each_check_is_kept(tmp_path: Path) -> None:
    others = [replace(RESULT, collection="notes"), replace(RESULT, questions="b.csv")]
    for each in (RESULT, *others, replace(RESULT, passed=True, at=2000.0)):
        write_check(tmp_path, each)
    assert read_checks(tmp_path) == [others[1], replace(RESULT, passed=True, at=2000.0), others[0]]


def test_damaged_files_are_omitted(tmp_path: Path) -> None:
    write_check(tmp_path, RESULT)
    damaged = {"check-1.json": "{", "check-2.json": "[]", "check-3.json": "{}", "check-4": "{}"}
    for name, text in damaged.items():
        (tmp_path / name).write_text(text)
    assert read_checks(tmp_path) == [RESULT]
    assert read_checks(tmp_path / "absent") == []


def test_keeping_a_config_deletes_what_killed_writers_left(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    (tmp_path / "docs").mkdir()
    (tmp_path / "state").mkdir()
    file.write_text("state: ./state\nsources: [{name: docs, kind: folder, path: ./docs, collection: docs}]\n")
    (tmp_path / "state" / f"{CONFIG_NAME}.4711").write_text("{}")
    keep_config(load(file, {}), 1.0)
    assert [each.name for each in (tmp_path / "state").iterdir()] == [CONFIG_NAME]
