"""The records are the same bit for bit, however many documents are prepared at a time and threads compute."""

from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.e2e.test_sync import long_document

LEAST, MOST = {"workers": 1, "embedding": {"threads": 1}}, {"workers": 16, "embedding": {"threads": 2}}


@pytest.mark.parametrize("strategy", ["changepoint", pytest.param("recursive", marks=pytest.mark.slow)])
def test_records_are_the_same_with_any_number_of_workers_and_threads(tmp_path: Path, strategy: str) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    for number in range(9):
        (documents / f"{number}.txt").write_text(long_document(1 + 5 * (number % 3), number))
    found = []
    for number, settings in enumerate((LEAST, MOST)):
        chunking = {"chunking": {"strategy": strategy}}
        project = Project(tmp_path / str(number), {**settings, **chunking}, {"path": str(documents)})
        assert project.json("sync")["documents"]["added"] == 9
        found.append(project.essence())
    assert found[0] == found[1]
    assert len(found[0]) >= 9
