"""Small files in the state folder: the last result of each check."""

from dataclasses import replace
from pathlib import Path

from ingestor.state.run_status import CheckResult, read_checks, write_check

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
