"""Scores from two rankings, and texts that nearly repeat others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import RecordId
from ingestor.search.fusion import SHARED, Distinct, by_vectors, by_words, fuse
from ingestor.search.values import Ranks


def test_score_counts_both_rankings() -> None:
    best = fuse([("a", 0.9), ("b", 0.8), ("d", 0.1)], [("b", 5.0), ("c", 2.0)], {"c": 0.2}, 10.0, 3)
    assert [one.id for one in best] == ["b", "a", "c"]
    assert [one.ranks for one in best] == [Ranks(2, 1), Ranks(1, None), Ranks(None, 2)]
    assert all(0 <= one.score <= 1 for one in best)


def test_words_count_little_where_few_of_the_question_s_are_found() -> None:
    """The best hit by words holds a tenth of what the question could give: the nearest vector stays first."""
    dense, lexical = [("a", 0.9), ("b", 0.2)], [("b", 1.0)]
    assert fuse(dense, lexical, {}, 10.0, 1)[0].id == "a"
    assert fuse(dense, lexical, {}, 1.0, 1)[0].id == "b"


def test_score_by_words_of_a_record_that_only_vectors_list_counts() -> None:
    dense, lexical = [("a", 0.9), ("b", 0.8)], [("c", 5.0)]
    assert [one.id for one in fuse(dense, lexical, {}, 10.0, 3)] == ["c", "a", "b"]
    found = fuse(dense, lexical, {}, 10.0, 3, scores={"b": 4.9, "d": 4.8})
    assert [one.id for one in found] == ["c", "b", "a"]
    assert found[1].ranks == Ranks(2, None)


def test_record_without_a_vector_counts_as_the_most_distant() -> None:
    found = fuse([("a", 0.9), ("b", 0.8)], [("c", 9.0), ("b", 1.0)], {}, 9.0, 5)
    assert [one.id for one in found] == ["c", "a", "b"]
    assert [one.id for one in fuse([], [("c", 9.0)], {}, 9.0, 5)] == ["c"]


def test_order_without_matching_words_is_that_of_the_vectors() -> None:
    dense = [("a", 0.9), ("b", 0.8), ("c", 0.8)]
    assert [one.id for one in fuse(dense, [], {}, 0.0, 9)] == ["a", "b", "c"]
    assert fuse([], [], {}, 0.0, 9) == []


@pytest.mark.parametrize(
    ("cosine", "words", "wanted"),
    [(0.8, 0.0, 0.24), (0.8, 5.0, 0.59), (1.0, 10.0, 1.0), (1.0000001, 10.1, 1.0), (-0.5, 0.0, 0.0)],
)
def test_score_of_one_candidate_is_its_share_of_the_words(cosine: float, words: float, wanted: float) -> None:
    (one,) = fuse([("a", cosine)], [("a", words)] if words else [], {}, 10.0, 5)
    assert one.score == pytest.approx(wanted)


def test_score_of_the_best_of_many_has_its_cosine_as_it_is() -> None:
    dense = [("a", 0.1), ("b", 0.075), ("c", 0.05)]
    assert [(one.id, round(one.score, 6)) for one in fuse(dense, [], {}, 0.0, 9)] == [
        ("a", 0.03), ("b", 0.015), ("c", 0.0),
    ]  # fmt: skip
    best, other = fuse([("a", 0.8), ("b", 0.6)], [("b", 10.0)], {}, 10.0, 9)
    assert (best.id, other.id) == ("b", "a")
    assert best.score == pytest.approx(0.3 * 0.6 + 0.7)
    assert fuse([("a", -0.2), ("b", -0.3)], [], {}, 0.0, 9)[0].score == 0


def test_scores_of_a_single_list_are_from_0_to_1() -> None:
    assert [(one.id, one.score, one.ranks) for one in by_vectors([("a", 0.9), ("b", 0.8)], 1)] == [
        ("a", 0.9, Ranks(1, None))
    ]
    assert by_vectors([("a", -0.2)], 1)[0].score == 0
    (one,) = by_words([("a", 3.0)], 6.0, 5)
    assert (one.ranks, one.score) == (Ranks(None, 1), 0.5)


@pytest.mark.parametrize("named", [{}, {"a": 1.0}, {"a": 0.5, "b": 1.0}])
def test_scores_with_named_documents_stay_between_0_and_1(named: dict[str, float]) -> None:
    dense = [(RecordId("a#0"), 0.9), (RecordId("b#0"), 0.8)]
    found = fuse(dense, [(RecordId("a#0"), 5.0)], {RecordId("b#1"): 0.1}, 5.0, 9, named=named)
    assert all(0 <= one.score <= 1 for one in found)
    assert found[0].id == "a#0"
    assert found[0].score > 0.9 or named.get("a") == 0.5


# --- near-duplicates are texts that share most of their runs of words, and no others -----------------------

TEXT = "The pump moves the water from the lower tank to the upper tank while the sun shines on the roof"


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (TEXT, TEXT, True),
        (TEXT, TEXT.upper() + "!", True),
        (TEXT, TEXT.replace("sun", "moon"), True),
        (TEXT, "\n\n".join(TEXT.split(" ")), True),
        (TEXT, TEXT[: len(TEXT) // 2], False),
        (TEXT, f"{TEXT}. {TEXT[::-1]}", False),
        ("The fee for adults is 4 euros", "The fee for children is 2 euros", False),
        ("yes", "yes", True),
        ("yes", "no", False),
        ("---", "---", True),
        ("---", "***", False),
        (
            "水泵把水从下面的水箱送到上面的水箱，太阳照在屋顶上，猫整天在图书馆门口睡觉。",
            "水泵把水从下面的水箱送到上面的水箱，月亮照在屋顶上，猫整天在图书馆门口睡觉。",
            True,
        ),
        ("水泵把水从下面的水箱送到上面的水箱。", "参观者必须在北门的留言簿上签名。", False),
    ],
)
def test_texts_are_near_duplicates_if_they_share_most_shingles(one: str, other: str, alike: bool) -> None:
    for first, second in ((one, other), (other, one)):
        texts = Distinct()
        assert texts.add(RecordId("a"), first) == "a"
        assert texts.add(RecordId("b"), second) == ("a" if alike else "b")


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=14)


def runs(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + 3]) for at in range(max(1, len(words) - 2))}


@given(st.lists(WORDS.filter(bool), max_size=12))
def test_each_text_falls_to_the_first_that_it_is_like(texts: list[list[str]]) -> None:
    kept: dict[int, set[tuple[str, ...]]] = {}
    found = Distinct()
    for at, words in enumerate(texts):
        mine = runs(words)
        like = (n for n, other in kept.items() if len(mine & other) > SHARED * max(len(mine), len(other)))
        first = next(like, at)
        if first == at:
            kept[at] = mine
        assert found.add(RecordId(str(at)), " ".join(words)) == str(first)
