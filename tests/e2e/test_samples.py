"""A plan that reads a sample of the documents."""

import pytest

from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project


def test_a_sample_stands_for_all(project: Project, ask: Ask) -> None:
    for n in range(400):
        (project.docs / f"{n}.md").write_text(
            f"# Title {n}\n\n" + f"Words of number {n} stand here. " * (n % 40)
        )
    (project.docs / "picture.bin").write_bytes(b"\0\1\2" * 100)
    whole = answered(ask("plan", "--json"))
    assert whole["sample"] is None
    said = answered(ask("plan", "--json", "--sample", "100"))
    assert said["sample"] == {"read": {"docs": [100, 401]}}
    for name, found, true in (
        ("records", said["records"]["added"], whole["records"]["added"]),
        ("tokens", said["embed"]["tokens"], whole["embed"]["tokens"]),
        ("documents", said["documents"]["added"], whole["documents"]["added"]),
    ):
        assert found == pytest.approx(true, rel=0.15), name
    assert sum(said["documents"].values()) == 401
    assert not said["cuts_known"]
    assert said["needs"]["chroma_memory"] == memory(said["records"]["added"])
    assert whole["disk"] == sum(whole["needs"][f"{name}_bytes"] for name in ("chroma", "journal", "cache"))
    people = ask("plan", "--sample", "100", "--machines", "3").out
    assert "source docs: 100 of 401 new documents were read; the figures are scaled to all" in people
    assert "on 3 such machines" in people
    assert answered(ask("plan", "--json", "--all"))["records"] == whole["records"]
    assert not (project.folder / "state").exists() or not list((project.folder / "state").glob("journal*"))


def memory(records: int) -> int:
    return records * (4 * 64 + 524)
