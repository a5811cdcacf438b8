"""Archives and mails through the real program: members come, change and go as files do."""

from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.pipeline.packed import mailed, tarred, zipped


def places(project: Project) -> list[str]:
    return sorted(
        {str(Path(meta["source"]).relative_to(project.docs)) for _, _, meta, _ in project.records()}
    )


@pytest.mark.slow
def test_members_are_kept_exactly_in_step(project: Project) -> None:
    project.source["archives"] = True
    project.configure()
    (project.docs / "a.zip").write_bytes(
        zipped({"one.md": "# One\n\nFirst words.", "d/two.md": "Second words."})
    )
    (project.docs / "b.tgz").write_bytes(tarred({"three.txt": "Third words."}, "w:gz"))
    (project.docs / "mail.eml").write_bytes(
        mailed({"four.md": "Fourth words.", "in.zip": zipped({"5.md": "Fifth."})})
    )
    assert project.json("sync")["documents"]["added"] == 9
    members = ["a.zip!/d/two.md", "a.zip!/one.md", "b.tgz!/three.txt", "mail.eml"]
    assert places(project) == [*members, "mail.eml!/four.md", "mail.eml!/in.zip!/5.md"]

    quiet = project.json("sync")
    assert (quiet["documents"]["unchanged"], sum(quiet["records"].values())) == (9, 0)

    (project.docs / "a.zip").write_bytes(
        zipped({"one.md": "# One\n\nOther words.", "e/two.md": "Second words.", "new.md": "New words."})
    )
    changed = project.json("sync")
    assert changed["embedded"]["texts"] == 2, "a renamed member is not embedded again"
    counted = ("added", "changed", "moved", "removed", "quarantined")
    assert [changed["documents"][count] for count in counted] == [1, 1, 1, 0, 0]
    assert project.essence() == project.fresh().essence()

    (project.docs / "a.zip").unlink()
    (project.docs / "mail.eml").rename(project.docs / "moved.eml")
    assert project.json("sync")["records"] == {"added": 0, "replaced": 0, "patched": 3, "dropped": 3}
    assert project.essence() == project.fresh("again").essence()


def test_a_broken_archive_is_one_document_with_a_reason(project: Project) -> None:
    project.source["archives"] = True
    project.configure()
    sound = zipped({"one.md": "First words.", "two.md": "Second words."})
    (project.docs / "a.zip").write_bytes(sound)
    project.json("sync")
    (project.docs / "a.zip").write_bytes(sound[:-30])
    assert project.json("sync", code=None)["documents"]["quarantined"] == 1
    assert "the archive is damaged" in project.call("status").stdout
    assert places(project) == ["a.zip!/one.md", "a.zip!/two.md"]


def test_without_the_option_an_archive_says_what_would_open_it(project: Project) -> None:
    (project.docs / "a.zip").write_bytes(zipped({"one.md": "First words."}))
    assert project.json("sync")["documents"]["unsupported"] == 1
    assert "`archives: true`" in project.call("status").stdout
