"""Near-duplicates are texts that share most of their runs of words, and no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import RecordId
from ingestor.search.fusion import SHARED, Distinct

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
