"""Names are those that pathlib finds."""

from pathlib import PurePosixPath

from hypothesis import example, given
from hypothesis import strategies as st

from ingestor.parsers.shared.file_names import file_name, suffix


@given(st.text(alphabet="/.aé", max_size=12))
@example("https://x/y/")
@example("a/.hidden")
@example("a/b.")
@example("a/..")
def test_names_and_suffixes_are_those_of_pathlib(key: str) -> None:
    assert file_name(key) == PurePosixPath(key).name
    assert suffix(file_name(key)) == PurePosixPath(key).suffix
