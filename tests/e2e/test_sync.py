"""One pass at a time: what it does, what it costs, what it says."""

from pathlib import Path

import pytest

from tests.e2e.in_chroma import in_chroma
from tests.e2e.project import Project

SAMPLES = Path(__file__).parents[2] / "documents"


def long_document(sentences: int, place: int = 0) -> str:
    """``place`` tells documents apart: Chroma's graph loses its way among dozens of equal vectors."""
    words = [
        "river",
        "stone",
        "bridge",
        "lantern",
        "harbour",
        "winter",
        "garden",
        "letter",
        "window",
        "market",
    ]
    lines = [
        f"Sentence {n} speaks of the {words[n % 10]} and the {words[n * 7 % 10]} near house {place}-{n}."
        for n in range(sentences)
    ]
    return "\n\n".join(" ".join(lines[i : i + 5]) for i in range(0, sentences, 5))


def test_the_keys_of_sync_are_stable(project: Project) -> None:
    (project.docs / "a.md").write_text("# Title\n\nSome words.\n")
    result = project.json("sync")
    assert result["documents"] | {"failed": 0} == {
        "added": 1, "changed": 0, "moved": 0, "rebuilt": 0, "removed": 0, "unchanged": 0,
        "quarantined": 0, "unsupported": 0, "failed": 0, "due": 0,
    }  # fmt: skip
    assert result["records"] == {"added": 1, "replaced": 0, "patched": 0, "dropped": 0}
    assert set(result["embedded"]) == {"texts", "tokens", "cost"}
    again = project.json("sync")
    assert again["documents"]["unchanged"] == 1
    assert again["embedded"]["texts"] == 0
    assert not any(again["records"].values())


def test_cost_follows_the_change(project: Project) -> None:
    """Law 5, counted: an edit embeds what it touches; what moved or was touched embeds nothing."""
    text = long_document(300)
    document = project.docs / "long.txt"
    document.write_text(text)
    first = project.json("sync")
    assert first["records"]["added"] >= 80

    document.write_text(text.replace("Sentence 150 speaks", "Sentence 150 keeps silent"))
    edited = project.json("sync")
    assert 1 <= edited["embedded"]["texts"] <= 2
    assert edited["records"]["added"] + edited["records"]["replaced"] == edited["embedded"]["texts"]

    document.write_text("A new first line.\n\n" + document.read_text())
    assert project.json("sync")["embedded"]["texts"] <= 2

    document.touch()
    touched = project.json("sync")
    assert (touched["embedded"]["texts"], sum(touched["records"].values())) == (0, 0)

    (project.docs / "sub").mkdir()
    document.rename(project.docs / "sub" / "renamed.txt")
    moved = project.json("sync")
    assert moved["documents"]["moved"] == 1
    assert moved["embedded"]["texts"] == 0
    assert moved["records"]["added"] == moved["records"]["replaced"] == moved["records"]["dropped"] == 0

    (project.docs / "sub").rename(project.docs / "other")
    assert project.json("sync")["embedded"]["texts"] == 0
    assert project.essence() == project.fresh().essence()


def test_plan_says_what_sync_then_does(project: Project) -> None:
    for n in range(5):
        (project.docs / f"{n}.txt").write_text(long_document(40 + n))
    plan = project.json("plan")
    assert not (project.folder / "state").exists(), "plan must touch nothing"
    sync = project.json("sync")
    for kind in ("added", "changed", "moved", "removed", "unchanged"):
        assert plan["documents"][kind] == sync["documents"][kind], kind
    assert plan["records"] == sync["records"]
    assert plan["embed"]["texts"] == sync["embedded"]["texts"]
    assert plan["embed"]["tokens"] == sync["embedded"]["tokens"]

    (project.docs / "0.txt").unlink()
    (project.docs / "1.txt").rename(project.docs / "one.txt")
    (project.docs / "2.txt").write_text(long_document(42).replace("Sentence 7 ", "Line 7 "))
    plan, sync = project.json("plan"), project.json("sync")
    assert plan["records"] == sync["records"]
    assert {k: v for k, v in plan["documents"].items() if v} == {
        "removed": 1,
        "moved": 1,
        "changed": 1,
        "unchanged": 2,
    }
    assert plan["embed"]["texts"] == sync["embedded"]["texts"]


DAMAGE = """
ids = collection.get()["ids"]
aside = [1.0] + [0.0] * 63
collection.delete(ids[:2])
collection.update([ids[3]], metadatas=[{"source": "elsewhere"}])
collection.update([ids[4]], documents=["other words"], embeddings=[aside])
collection.add(["stray#0"], documents=["stray"], embeddings=[aside])
"""


def test_verify_finds_every_kind_of_damage_and_mends_it_without_embedding(project: Project) -> None:
    for n in range(4):
        (project.docs / f"{n}.txt").write_text(long_document(60 + n))
    project.json("sync")
    assert project.json("verify")["checked"] > 20
    before = project.essence()
    in_chroma(project.folder / "chroma", "docs", DAMAGE)
    found = project.json("verify", code=4)
    assert [found[k] for k in ("missing", "orphaned", "stale", "wrong_metadata")] == [2, 1, 1, 1]
    assert project.json("verify", "--repair")["repaired"]
    assert project.essence() == before


@pytest.mark.timeout(280)
@pytest.mark.parametrize(("part", "least"), [("kitchen", 3), pytest.param("", 10, marks=pytest.mark.slow)])
def test_the_samples_with_the_real_model(tmp_path: Path, part: str, least: int) -> None:
    settings = {
        "embedding": {"model": "all-MiniLM-L6-v2"},
        "chunking": {"strategy": "recursive", "size": 200},
    }
    project = Project(tmp_path / "real", settings, {"path": str(SAMPLES / part)})
    assert project.json("sync")["documents"]["added"] >= least
    hits = project.json("query", "How often should I feed a sourdough starter?", "-n", "3")["hits"]
    assert "sourdough" in hits[0]["metadata"]["source"]
    assert hits[0]["score"] > hits[2]["score"] > 0
    assert project.json("verify")["unreachable"] == 0


@pytest.mark.parametrize(
    ("chunking", "exact", "cuts_known"),
    [
        ({"strategy": "fixed"}, True, True),
        pytest.param({"strategy": "changepoint", "scope": "document"}, True, False, marks=pytest.mark.slow),
        ({"strategy": "changepoint"}, True, False),
        ({"strategy": "cluster", "scope": "document"}, False, False),
        ({"strategy": "breakpoint", "vectors": "pooled"}, True, False),
        pytest.param({"strategy": "breakpoint"}, False, False, marks=pytest.mark.slow),
        ({"strategy": "auto"}, True, False),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else "",
)
def test_plan_says_how_sure_it_is_of_what_it_says(
    project: Project, chunking: dict[str, str], exact: bool, cuts_known: bool
) -> None:
    project.settings["chunking"] = chunking
    project.configure()
    for n in range(3):
        (project.docs / f"{n}.txt").write_text(long_document(40 + n))
    first, done = project.json("plan"), project.json("sync")
    assert (first["embed"]["exact"], first["cuts_known"]) == (exact, cuts_known)
    if exact:
        assert first["embed"]["texts"] == done["embedded"]["texts"]
        assert first["embed"]["tokens"] == done["embedded"]["tokens"]
    if cuts_known:
        assert first["records"] == done["records"]
    nothing = project.json("plan")
    assert (nothing["embed"]["exact"], nothing["cuts_known"]) == (True, True)
    assert nothing["embed"]["texts"] == 0
