"""Figures of the documents that were drawn, and their totals with intervals. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ingestor.app.planning.strata import Drawn, EstimateInterval, Population, Stratum, draw, total
from ingestor.core.entries import Entry
from ingestor.model import SourceName

Figures = Counter[str]  # what one document adds to a plan, by name


@dataclass(frozen=True, slots=True)
class Sampling:
    """Bounds of a sample: sources with over ``above`` documents give about ``documents``, by ``seed``."""

    documents: int = 2_000
    above: int = 20_000
    seed: int = 0

    @classmethod
    def of(cls, wanted: int | None) -> "Sampling":
        """So many documents of every source that has more; None: of large ones alone."""
        return cls() if wanted is None else cls(wanted, wanted)


@dataclass(slots=True)
class SampledSource:
    """Documents drawn from a source. ``figures``: those of ``drawn``, in that order."""

    source: SourceName
    strata: Sequence[Stratum]
    drawn: Sequence[Entry]
    figures: list[Figures] = field(default_factory=list)

    @property
    def documents(self) -> int:
        """How many stand behind the drawn ones."""
        return sum(stratum.documents for stratum in self.strata)

    def of(self, name: str) -> list[tuple[Stratum, list[Drawn]]]:
        """Return a figure by stratum. Documents are counted, whatever their size."""
        rows = zip(self.drawn, self.figures, strict=True)
        strata = [replace(each, size=0) for each in self.strata] if _is_count(name) else self.strata
        return [(stratum, [_drawn(stratum, *next(rows), name) for _ in stratum.chosen]) for stratum in strata]

    def missing(self, name: str) -> float:
        """Estimate the share of a figure that documents outside the sample add."""
        return total(self.of(name)).value - sum(one[name] for one in self.figures)


def drawn_of(
    source: SourceName,
    due: Population,
    entries: Callable[[Sequence[int]], Mapping[int, Entry]],
    sample: Sampling | None,
) -> SampledSource | None:
    """The documents that are read of those that are due; None if all are. ``entries``: those at places in
    ascending order; one that is missing has left the journal."""
    if sample is None or len(due) <= max(sample.above, sample.documents):
        return None
    strata = draw(due, sample.documents, sample.seed)
    found = entries(sorted(at for stratum in strata for at in stratum.chosen))
    strata = [replace(each, chosen=tuple(at for at in each.chosen if at in found)) for each in strata]
    return SampledSource(source, strata, [found[at] for stratum in strata for at in stratum.chosen])


def interval(sampled: Sequence[SampledSource], name: str, known: float) -> EstimateInterval:
    """Bounds of a figure. ``known``: its total, in which documents that were not drawn are estimated."""
    estimated = total([each for one in sampled for each in one.of(name)])
    most = sum(one.documents for one in sampled) if _is_count(name) else estimated.high
    rest = known - estimated.value
    return EstimateInterval(known, rest + estimated.low, rest + min(most, estimated.high))


def _is_count(name: str) -> bool:
    """Whether the figure is a number of documents: there are no more of them than were listed."""
    return name.partition(".")[0] == "documents"


def _drawn(stratum: Stratum, entry: Entry, figures: Figures, name: str) -> Drawn:
    size = entry.item.size if entry.item is not None and stratum.size else 1
    return Drawn(float(size or 0), float(figures[name]))
