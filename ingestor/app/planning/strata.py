"""A stratified sample, and what it says of the whole, with an interval. Pure.

Documents are divided by format and size, and drawn from each stratum by chance. A total is estimated in each
by the ratio of the figure to the bytes, which are known of all documents; where they are not, by the mean
[Cochran 1977, chapters 5 and 6].
"""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ingestor.model import Item

FEW = 8  # documents drawn from a stratum at least; a smaller one is drawn whole
RARE = 30  # documents of a format; rarer formats are one
_Z = 1.959964  # 95 % of a normal distribution lie within so many standard deviations


class Population:
    """Format and bytes of each document, in sixteen bytes."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._formats: dict[str, int] = {}
        self._format, self._sizes = array("q"), array("q")
        for item in items:
            self.add(item.key, item.size)

    def add(self, key: str, size: int | None) -> None:
        self._format.append(self._formats.setdefault(_ending(key), len(self._formats)))
        self._sizes.append(size or 0)

    def __len__(self) -> int:
        return len(self._sizes)

    def size(self, at: int) -> int:
        return self._sizes[at]

    def groups(self) -> dict[tuple[str, int], Sequence[int]]:
        """Places of the documents by format and size; sizes of a group differ by four times at most."""
        numbers, names = Counter(self._format), [*self._formats]
        common = [name if numbers[at] >= RARE else "" for at, name in enumerate(names)]
        groups: dict[tuple[str, int], array[int]] = defaultdict(partial(array, "q"))
        for place, (format_, size) in enumerate(zip(self._format, self._sizes, strict=True)):
            groups[common[format_], size.bit_length() // 2].append(place)
        return {**groups}


@dataclass(frozen=True, slots=True)
class Stratum:
    """``chosen``: places of the drawn ones among all items. ``documents``, ``size``: number and bytes of all.

    ``size`` is 0 where the source does not tell it.
    """

    chosen: tuple[int, ...]
    documents: int
    size: int


@dataclass(frozen=True, slots=True)
class EstimateInterval:
    """An estimate, and the bounds within which the truth lies with 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawn document: its bytes (1 where its stratum has none), and one figure of it."""

    size: float
    figure: float


def draw(population: Population, wanted: int, seed: int) -> list[Stratum]:
    """About ``wanted`` documents in strata, more of the large ones: they weigh more."""
    random, groups = np.random.default_rng(seed), population.groups()
    weights = {key: sum(population.size(at) or 1 for at in group) for key, group in groups.items()}
    total = sum(weights.values()) or 1
    strata = []
    for key in sorted(groups):
        group = groups[key]
        share = max(FEW, round(wanted * weights[key] / total))
        chosen = sorted(random.choice(group, min(share, len(group)), replace=False).tolist())
        strata.append(Stratum(tuple(chosen), len(group), sum(map(population.size, group))))
    return strata


def total(strata: Sequence[tuple[Stratum, Sequence[Drawn]]]) -> EstimateInterval:
    """The total of a figure over all documents, by the drawn ones of each stratum."""
    parts = [_ratio(stratum, drawn) for stratum, drawn in strata if drawn]
    value, variance = sum(part.value for part in parts), sum(part.variance for part in parts)
    seen = sum(one.figure for _, drawn in strata for one in drawn)
    spread = math.sqrt(variance) * _quantile(parts)
    return EstimateInterval(value, max(seen, value - spread), value + spread)


@dataclass(frozen=True, slots=True)
class _Part:
    value: float
    variance: float
    freedom: int


def _ratio(stratum: Stratum, drawn: Sequence[Drawn]) -> _Part:
    n, size = len(drawn), sum(one.size for one in drawn)
    whole = stratum.size or stratum.documents
    ratio = sum(one.figure for one in drawn) / size if size else 0.0
    if n >= stratum.documents or n < 2 or not size:
        return _Part(ratio * whole, 0.0, 1)
    residues = sum((one.figure - ratio * one.size) ** 2 for one in drawn) / (n - 1)
    left = 1 - n / stratum.documents
    return _Part(ratio * whole, (whole / (size / n)) ** 2 * left * residues / n, n - 1)


def _quantile(parts: Sequence[_Part]) -> float:
    """Return the quantile of Student's distribution with Satterthwaite's degrees of freedom."""
    squares = sum(part.variance**2 / part.freedom for part in parts)
    if not squares:
        return _Z
    freedom = max(3.0, sum(part.variance for part in parts) ** 2 / squares)
    z = _Z
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _ending(key: str) -> str:
    name = key.rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name[1:] else ""
