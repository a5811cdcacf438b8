"""Answers of several collections as one."""

from dataclasses import replace

import pytest

from ingestor.model import RecordId
from ingestor.search.several import fuse_answers, label, names_of
from ingestor.search.values import (
    Answer,
    BadQuestion,
    Copy,
    Found,
    Passage,
    Question,
    Ranks,
    as_json,
    question_of,
)  # fmt: skip


def hit(id_: str, score: float) -> Found:
    return Found(RecordId(id_), score, f"text of {id_}", {}, Ranks())


def answer(*hits: Found, fallback: str | None = None) -> Answer:
    passages = (Passage(one.document, "", None, None, None, None, None, (one.id,)) for one in hits)
    return Answer(hits, tuple(passages), "hybrid", 0.1, fallback)


def words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


DOCS = answer(hit("a", 0.9), hit("b", 0.8), hit("c", 0.7))
MAIL = answer(hit("a", 0.95), hit("z", 0.1))


@pytest.mark.parametrize(
    ("wanted", "names"),
    [("docs", None), ("", None), ("*", ["docs", "mail"]), (["mail"], ["mail"]),
     (["*", "x"], ["docs", "mail"]), (["mail", "docs", "mail"], ["mail", "docs"])],
)  # fmt: skip
def test_collections_are_named_by_name_list_or_star(wanted: object, names: list[str] | None) -> None:
    assert names_of(wanted, ["mail", "docs"]) == names  # type: ignore[arg-type]


def test_hits_are_fused_by_rank_then_by_score() -> None:
    found = fuse_answers(Question("q", "*", 4), {"docs": DOCS, "mail": MAIL}, {}, words, 0.5)  # type: ignore[arg-type]
    assert [(one.collection, one.id) for one in found.hits] == [
        ("mail", "a"), ("docs", "a"), ("docs", "b"), ("mail", "z"),
    ]  # fmt: skip
    assert [(one.collection, one.ids[0]) for one in found.passages] == [
        (one.collection, one.id) for one in found.hits
    ], "a passage of the same id in another collection is another one"
    assert (found.seconds, found.fallback, found.mode) == (0.5, None, "hybrid")


def test_budget_is_one_for_all_collections() -> None:
    asked = Question("q", "*", budget_tokens=9)
    found = fuse_answers(asked, {"docs": DOCS, "mail": MAIL}, {}, words, 0.5)  # type: ignore[arg-type]
    assert [one.collection for one in found.passages] == ["mail", "docs"], (
        "three words and one for a gap each"
    )
    assert [one.collection for one in found.hits] == ["mail", "docs"]
    small = fuse_answers(Question("q", "*", budget_tokens=2), {"docs": DOCS}, {}, words, 0.5)  # type: ignore[arg-type]
    assert (small.hits, small.needed_tokens) == ((), 4)


TEXT = "a borrowed book comes back to the desk within four weeks or the reader pays for it"


@pytest.mark.parametrize("wanted", [{"distinct": True}, {"expand": "section"}, {"budget_tokens": 99}])
def test_near_duplicates_in_several_collections_are_one_hit(wanted: dict[str, object]) -> None:
    old = Copy(RecordId("a#9"), "a", "")
    docs, mail = (
        answer(*(replace(one, document=text) for one, text in zip(of.hits, texts, strict=True)))
        for of, texts in ((DOCS, ("one", TEXT, "three")), (MAIL, (f"{TEXT} then", "four")))
    )
    docs = replace(docs, hits=(docs.hits[0], replace(docs.hits[1], also_in=(old,)), docs.hits[2]))
    asked = Question("q", "*", 3, **wanted)  # type: ignore[arg-type]
    found = fuse_answers(asked, {"docs": docs, "mail": mail}, {}, words, 0.5)
    assert [(one.collection, one.id) for one in found.hits][:3] == [
        ("mail", "a"),
        ("docs", "a"),
        ("mail", "z"),
    ]
    copies = (Copy(RecordId("b"), "", "", "docs"), replace(old, collection="docs"))
    assert found.hits[0].also_in == found.passages[0].also_in == copies
    assert ("docs", "b") not in {(one.collection, one.ids[0]) for one in found.passages}
    plain = fuse_answers(Question("q", "*", 9), {"docs": docs, "mail": mail}, {}, words, 0.5)
    assert len(plain.hits) == 5
    assert as_json(found)["hits"][0]["also_in"][0]["collection"] == "docs"


def test_reasons_name_their_collection() -> None:
    found = fuse_answers(
        Question("q", "*"), {"docs": answer(fallback="no words yet")}, {"mail": "no model"}, words, 0.5  # type: ignore[arg-type]
    )  # fmt: skip
    assert found.fallback == "docs: no words yet; mail: no model"


def test_answer_names_its_only_collection() -> None:
    assert {one.collection for one in (*label(DOCS, "docs").hits, *label(DOCS, "docs").passages)} == {"docs"}


@pytest.mark.parametrize("wrong", [[], [""], [3], 3, None, {"a": 1}, ["a"] * 1001])
def test_other_collections_are_refused(wrong: object) -> None:
    with pytest.raises(BadQuestion, match="collection must be a name, a list of names, or \\*"):
        question_of({"query": "q", "collection": wrong})
