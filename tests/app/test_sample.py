"""A sample of documents: drawn by chance, the same at each run, and its intervals hold the truth."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count, pairwise

import numpy as np
import pytest

from ingestor.app.planning.needs import disk, memory, write_seconds
from ingestor.app.planning.strata import Drawn, Population, Stratum, draw, total
from ingestor.model import Item

ENDINGS = ("txt", "md", "pdf", "png")


@cache
def corpus(documents: int) -> list[tuple[Item, int]]:
    """Documents of very different sizes, and their records: by their text, a varying part of them."""
    chance = np.random.default_rng(1)
    return list(_documents(documents, chance))


def _documents(documents: int, chance: np.random.Generator) -> Iterator[tuple[Item, int]]:
    for n in range(documents):
        ending = ENDINGS[int(chance.choice(4, p=[0.5, 0.25, 0.2, 0.05]))]
        size = int(np.exp(chance.normal({"txt": 7, "md": 8, "pdf": 11, "png": 9}[ending], 1.3)))
        share = {"txt": 1.0, "md": 0.95, "pdf": chance.beta(1, 4), "png": 0.0}[ending]
        records = 0 if ending == "png" else max(1, round(share * size / chance.normal(400, 60)))
        yield Item(f"{n % 7}/{n}.{ending}", "1", f"{n}", size), records


def drawn(strata: Sequence[Stratum], found: Sequence[tuple[Item, int]]) -> list[tuple[Stratum, list[Drawn]]]:
    return [
        (one, [Drawn(found[at][0].size or 1 if one.size else 1, found[at][1]) for at in one.chosen])
        for one in strata
    ]


@pytest.mark.parametrize(("wanted", "width"), [(150, 0.15), (600, 0.06)])
def test_intervals_hold_the_truth_in_nine_of_ten_samples(wanted: int, width: float) -> None:
    found = corpus(2000)
    items, truth = [item for item, _ in found], sum(records for _, records in found)
    intervals = [total(drawn(draw(Population(items), wanted, seed), found)) for seed in range(200)]
    assert sum(one.low <= truth <= one.high for one in intervals) >= 180
    assert np.mean([one.high - one.low for one in intervals]) / 2 < width * truth
    assert np.mean([one.value for one in intervals]) == pytest.approx(truth, rel=0.03)


def test_without_sizes_the_mean_counts() -> None:
    found = [(Item(item.key, "1", item.uri), min(records, 50)) for item, records in corpus(2000)]
    items, truth = [item for item, _ in found], sum(records for _, records in found)
    intervals = [total(drawn(draw(Population(items), 400, seed), found)) for seed in range(200)]
    assert sum(one.low <= truth <= one.high for one in intervals) >= 180


def test_too_narrow_intervals_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half as wide, they do not hold the truth often enough."""
    monkeypatch.setattr("ingestor.app.planning.strata._Z", 0.98)
    with pytest.raises(AssertionError):
        test_intervals_hold_the_truth_in_nine_of_ten_samples(150, 0.15)


def test_a_sample_is_the_same_again_and_all_of_a_small_source() -> None:
    items = [item for item, _ in corpus(500)]
    assert (
        draw(Population(items), 100, 1) == draw(Population(items), 100, 1) != draw(Population(items), 100, 2)
    )
    whole = draw(Population(items), 10**6, 0)
    assert sorted(at for one in whole for at in one.chosen) == list(range(500))
    numbers = count()
    figures = [(one, [Drawn(1.0, next(numbers)) for _ in one.chosen]) for one in whole]
    seen = total([(Stratum(one.chosen, one.documents, 0), of) for one, of in figures])
    assert seen.value == seen.low == seen.high == sum(range(500))


def test_what_records_need() -> None:
    assert memory(245_000, 1024) == pytest.approx(1e9, rel=0.15), "Chroma's rule, and the links"
    found = disk(1000, 400_000, 1000, 384)
    assert found.total == found.chroma + found.journal + found.cache
    assert found.chroma > found.cache > found.journal


def test_writing_takes_longer_the_more_records_there_are() -> None:
    assert write_seconds(0, 500) == 0
    assert write_seconds(800, 0) == pytest.approx(8 * write_seconds(100, 300))
    each = [write_seconds(1, before) for before in (999, 2_000, 4_000, 8_000)]
    steps = [later - earlier for earlier, later in pairwise(each)]
    assert steps == pytest.approx([steps[0]] * 3, rel=0.01), "as much for each doubling"
    assert steps[0] > 0
    assert sum(write_seconds(500, before) for before in range(0, 10_000, 500)) == pytest.approx(
        write_seconds(10_000, 0)
    )
