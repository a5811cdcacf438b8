"""Changes that a config means for existing collections, before anything is done. Reads only."""

from dataclasses import dataclass, replace

from ingestor.app.building.parts import Parts
from ingestor.core.entries import EditionName
from ingestor.model import CollectionName
from ingestor.rechunk import policy
from ingestor.rechunk.policy import Decision
from ingestor.rechunk.recipes import Change, asking_prices, described_otherwise
from ingestor.rechunk.swap import situation
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal


@dataclass(frozen=True, slots=True)
class Outlook:
    """Consequence of a config for a collection. ``waits``: why it needs ``apply``; "" if it does not."""

    serves: CollectionName
    edition: EditionName  # to which the documents would be written
    decision: Decision  # as if it were approved
    chunks: int  # records of the sources that change
    waits: str
    described: Change | None = None  # which metadata keys records carry

    @property
    def another(self) -> bool:
        """Whether a second collection is built to replace the first."""
        return self.decision.act in ("build", "go_on")


def outlook(parts: Parts, journal: Journal) -> list[Outlook]:
    """Return the outlook of each collection of the config."""
    return [_outlook(parts, journal, serves) for serves in parts.config.collections]


def _outlook(parts: Parts, journal: Journal, serves: CollectionName) -> Outlook:
    wanted, settings = parts.wanted(serves), parts.config.rechunk
    prices, editions = asking_prices(parts.config, serves), Editions(journal)
    now = situation(journal, serves, wanted, prices, parts.other_recipes)
    decision = policy.decide(replace(now, approved=policy.named(wanted), refused=None), settings)
    edition = editions.live(serves).name
    if decision.act == "build":
        edition = EditionName(f"{serves}--new")
    elif decision.act == "go_on":
        edition = editions.of(serves, "staging")[0].name
    waits = policy.decide(now, settings).why
    described = described_otherwise(now.live, wanted) if now.live is not None and not now.empty else None
    return Outlook(serves, edition, decision, now.chunks, waits, described)
