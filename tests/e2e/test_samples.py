"""A plan that reads a sample of the documents."""

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
    read, of = said["sample"]["read"]["docs"]
    assert 80 < read < 200 and of == 401
    for name, true in (
        ("records", whole["records"]["added"]),
        ("tokens", whole["embed"]["tokens"]),
        ("documents", whole["documents"]["added"]),
    ):
        low, high = said["sample"][name]
        assert 0.99 * low <= true <= 1.01 * high, "one sample, and a very narrow interval"
        assert high - low < true / 3
    assert said["sample"]["documents"][1] <= 401  # there are no more than were listed
    assert sum(said["documents"].values()) == 401
    assert not said["cuts_known"]
    assert said["needs"]["chroma_memory"] == memory(said["records"]["added"])
    assert whole["disk"] == sum(whole["needs"][f"{name}_bytes"] for name in ("chroma", "journal", "cache"))
    people = ask("plan", "--sample", "100", "--machines", "3").out
    assert f"source docs: {read} of 401 new documents were read; they stand for the others" in people
    assert "on 3 such machines" in people
    assert answered(ask("plan", "--json", "--all"))["records"] == whole["records"]
    assert not (project.folder / "state").exists() or not list((project.folder / "state").glob("journal*"))


def test_listed_documents_are_counted_whatever_their_sizes(project: Project, ask: Ask) -> None:
    for n in range(60):
        (project.docs / f"{n}.md").write_text(f"Number {n}. " + "More words. " * n * n)
    said = answered(ask("plan", "--json", "--sample", "10"))
    read, of = said["sample"]["read"]["docs"]
    assert read < of == 60
    assert said["sample"]["documents"] == [60, 60]
    assert "documents  60\n" in ask("plan", "--sample", "10").out


def memory(records: int) -> int:
    return records * (4 * 64 + 524)
