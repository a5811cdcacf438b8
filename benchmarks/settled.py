"""Cost of an unchanged source of a million files, or of the given numbers.

``python -m benchmarks settled 300000 1000000``: empty files whose rows are written into the journal as if a
sync had settled them, which avoids the hours of a first pass. Then the commands that look for changes run,
and processor time and largest memory are measured. Files are empty, so only listing and comparing is
measured.
"""

import os
import sqlite3
import sys
import tempfile
from pathlib import Path
from secrets import token_hex

from benchmarks.scale import configure, run
from ingestor.connectors.folder.connector import Folder, FolderOptions
from ingestor.state.tables import item_columns

FOLDER = 500  # files
COMMANDS = ("sync", "status", "plan", "verify")


def main(files: int = 1_000_000, second: int = 0) -> None:
    """Print a table; a million files take some minutes, and a million inodes of the temporary folder."""
    print(
        f"{'files':>10} {'command':10} {'processor':>12} {'in Chroma':>12} {'memory':>10} {'of Chroma':>10}"
    )
    for number in filter(None, (files, second)):
        with tempfile.TemporaryDirectory(prefix="ingestor-settled-") as folder:
            _show(Path(folder), number)


def _show(folder: Path, files: int) -> None:
    config = _settled(folder, files)
    for command in COMMANDS:
        seconds, theirs, memory, chroma = (figure.value for _, figure in run(command, config, command))
        print(
            f"{files:10,} {command:10} {seconds:10.1f} s {theirs:10.1f} s {memory:7.0f} MB {chroma:7.0f} MB",
            flush=True,
        )


def _settled(folder: Path, files: int) -> Path:
    """Create a project of so many settled documents; return the path of its config."""
    documents, config = folder / "docs", folder / "config.yaml"
    documents.mkdir()
    (documents / "first.txt").write_text("the only document with words")
    configure(config)
    list(run("first", config, "sync"))
    for number in range(files):
        if number % FOLDER == 0:
            (documents / f"{number // FOLDER}").mkdir()
        os.close(os.open(documents / f"{number // FOLDER}" / f"{number}.txt", os.O_CREAT | os.O_WRONLY))
    _note(sqlite3.connect(folder / "state" / "journal.sqlite3", isolation_level=None), documents, files)
    return config


def _note(journal: sqlite3.Connection, documents: Path, files: int) -> None:
    """Write rows of all files, modelled on the first document's row."""
    cursor = journal.execute("SELECT * FROM documents")
    names = [column[0] for column in cursor.description]
    like = dict(zip(names, cursor.fetchone(), strict=True))
    del like["id"]
    insert = f"INSERT INTO documents ({', '.join(like)}) VALUES ({', '.join('?' * len(like))})"
    journal.execute("BEGIN")
    for item in Folder(FolderOptions(path=documents)).scan():
        if item.key != like["key"]:
            key, version, uri, size, modified, extra = item_columns(item)
            values = {
                "document_id": token_hex(8), "key": key, "wanted_version": version, "done_version": version,
                "uri": uri, "size": size, "modified": modified, "extra": extra,
            }  # fmt: skip
            journal.execute(insert, [*(like | values).values()])
    journal.execute("UPDATE sources SET documents = ?", (files + 1,))
    journal.execute("COMMIT")
    journal.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
