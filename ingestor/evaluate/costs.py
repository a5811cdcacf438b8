"""What a strategy costs for the whole collection, in proportion to the documents that were read. Pure."""

from dataclasses import dataclass

from ingestor.app.planning import needs


@dataclass(frozen=True, slots=True)
class StrategyCosts:
    """``embedded``: tokens that the model reads, ``passes`` times those of the text. ``seconds``: of cutting
    and embedding. ``money``: of embedding; None where no price is known. ``disk``: bytes of Chroma and the
    journal, by the estimate of ``ingestor plan``.
    """

    records: int
    embedded: int
    passes: float
    seconds: float
    money: float | None
    disk: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Of the sample. ``text``: bytes of the chunks' texts; ``tokens``: of the documents' texts."""

    records: int
    text: int
    embedded: int
    tokens: int
    seconds: float
    dimensions: int


def costs(found: Measured, share: float, price: float) -> StrategyCosts:
    """``share``: of the collection's documents that were read. ``price``: of a million tokens; 0: unknown."""
    records, embedded = round(found.records / share), round(found.embedded / share)
    disk = needs.disk(records, round(found.text / share), 0, found.dimensions)
    return StrategyCosts(
        records,
        embedded,
        found.embedded / max(1, found.tokens),
        found.seconds / share,
        embedded * price / 1e6 if price else None,
        disk.chroma + disk.journal,
    )
