"""What a changed config leaves alone."""

import gzip
from pathlib import Path

import pytest

from ingestor.app.wiring import open_state
from ingestor.config.file import load
from ingestor.core.listings import VersionTable

pytestmark = pytest.mark.usefixtures("forked_chroma")
CONFIG = """
state: ./state
chroma: {path: ./chroma, embedded: true}
http: false
embedding: {kind: hashing, dimensions: 64}
chunking: {strategy: recursive, size: 200}
sources:
  - {name: docs, kind: folder, path: ./docs, collection: docs, watch: "off"}
"""


@pytest.mark.parametrize(
    ("edit", "same"), [(("size: 200", "size: 150"), True), (("path: ./docs", "path: ./other"), False)]
)
def test_place_of_source_outlives_other_changes_of_config(
    tmp_path: Path, edit: tuple[str, str], same: bool
) -> None:
    """Members of compressed files are read without a listing: a reload need not list a source."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "docs/notes.txt.gz").write_bytes(gzip.compress(b"a line of text"))
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    with open_state(load(file, {}), serve=False) as running:
        running.configure(watch=False)
        [source] = running.engine.sources.values()
        items = list(source.expand(source.connector.scan(), VersionTable({})))
        [member] = [item for item in items if item.key.endswith("notes.txt")]
        file.write_text(CONFIG.replace(*edit))
        changed = running.with_config(load(file, {}))
        changed.configure(watch=False)
        [first, *_] = changed.engine.sources.values()
        assert (first.connector is source.connector) is same
        if same:
            assert first.tools.reader.fetch(member).data == b"a line of text"
