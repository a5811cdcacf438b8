"""A changed chunker needs no source and no parser: what was read is remembered."""

import os
from pathlib import Path

from tests.e2e.project import Project

WORDS = "one two three four five six seven eight nine ten eleven twelve. " * 20


def swapped_behind_the_back(path: Path, content: str) -> None:
    """Other content, though what the source goes by (size, time) stays: only who reads it would notice."""
    before = path.stat()
    assert len(content.encode()) == before.st_size
    path.write_text(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_changed_chunker_fetches_nothing(project: Project) -> None:
    source = {"name": "docs", "kind": "files", "url": f"file://{project.docs}", "collection": "docs"}
    project.settings["sources"] = [source]
    paths = [project.docs / f"{number}.md" for number in range(3)]
    for path in paths:
        path.write_text(f"# {path.stem}\n\n{WORDS}")
    project.configure()
    project.json("sync")
    before = project.records()
    for path in paths:
        swapped_behind_the_back(path, path.read_text().replace("one two", "two one"))
    project.settings["chunking"] = {"strategy": "recursive", "size": 20}
    project.configure()
    plan = project.json("plan")
    done = project.json("sync")
    assert done["documents"]["rebuilt"] == 3
    assert done["embedded"]["texts"] == plan["embed"]["texts"]
    records = project.records()
    assert len(records) > 2 * len(before)
    assert not any("two one" in record[1] for record in records)

    paths[0].write_text(f"# again\n\n{WORDS}{WORDS}")  # what is another now is read
    paths[1].unlink()
    assert project.json("sync")["documents"]["changed"] == 1
    assert any("again" in record[1] for record in project.records())
