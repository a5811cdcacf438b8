"""Costs of a strategy for the whole collection, extrapolated from the documents that were read. Pure."""

from dataclasses import dataclass

from ingestor.queries import needs


@dataclass(frozen=True, slots=True)
class ModelUse:
    """Requests to language models, tokens of requests and answers, and their price; 0 if unknown."""

    calls: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: "ModelUse") -> "ModelUse":
        return ModelUse(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.answer_tokens + other.answer_tokens,
            self.cost + other.cost,
        )

    def over(self, share: float) -> "ModelUse":
        """Extrapolate to the whole, of which this use is the given share."""
        tokens = round(self.prompt_tokens / share), round(self.answer_tokens / share)
        return ModelUse(round(self.calls / share), *tokens, self.cost / share)


@dataclass(frozen=True, slots=True)
class StrategyCosts:
    """Costs of a strategy for a collection.

    ``embedded``: tokens that the model reads, ``passes`` times the tokens of the texts.
    ``seconds``: time for cutting and embedding, without waiting for a language model.
    ``asked``: requests to language models. ``money``: price of both models; None if unknown.
    ``disk``: bytes of Chroma and the journal, as ``ingestor plan`` estimates them.
    """

    records: int
    embedded: int
    passes: float
    seconds: float
    asked: ModelUse
    money: float | None
    disk: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of the sample. ``text``: bytes of the chunks; ``tokens``: tokens of the documents."""

    records: int
    text: int
    embedded: int
    tokens: int
    seconds: float
    dimensions: int
    asked: ModelUse


def price(amount: float) -> str:
    """Format a price with two decimals, or with two digits below a tenth."""
    return f"{amount:,.2f}" if amount >= 0.1 else f"{amount:.2g}"


def costs(measured: Measured, share: float, price: float) -> StrategyCosts:
    """Extrapolate the sample's costs to the whole collection.

    ``share``: share of the collection's documents that were read.
    ``price``: price of embedding a million tokens; 0 if unknown.
    """
    records, embedded = round(measured.records / share), round(measured.embedded / share)
    asked = measured.asked.over(share)
    disk = needs.disk(records, round(measured.text / share), 0, measured.dimensions)
    return StrategyCosts(
        records,
        embedded,
        measured.embedded / max(1, measured.tokens),
        measured.seconds / share,
        asked,
        embedded * price / 1e6 + asked.cost if price or asked.cost else None,
        disk.chroma + disk.journal,
    )
