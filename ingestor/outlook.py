"""What a config changes about the collections that are there, before anything is done. Reads only."""

from dataclasses import dataclass, replace
from pathlib import Path

from ingestor import rechunk
from ingestor.choices import asking_prices
from ingestor.editions import Editions
from ingestor.journal import Journal
from ingestor.model import CollectionName
from ingestor.rechunk import Decision
from ingestor.transitions import situation
from ingestor.wiring import Parts


@dataclass(frozen=True, slots=True)
class Outlook:
    """Of one collection. ``waits``: why it is not done without ``apply``."""

    serves: CollectionName
    edition: CollectionName  # that the documents would be written to
    decision: Decision  # as if it were approved
    chunks: int  # records of the sources that change
    waits: str

    @property
    def another(self) -> bool:
        """Whether a second collection is made, to take the first one's place."""
        return self.decision.act in ("build", "go_on")


def outlook(parts: Parts, journal: Journal) -> list[Outlook]:
    """One a collection of the config."""
    return [_outlook(parts, journal, serves) for serves in parts.config.collections]


def _outlook(parts: Parts, journal: Journal, serves: CollectionName) -> Outlook:
    wanted, settings = parts.wanted(serves), parts.config.rechunk
    now, editions = situation(journal, serves, wanted, asking_prices(parts.config, serves)), Editions(journal)
    decision = rechunk.decide(replace(now, approved=rechunk.named(wanted), refused=None), settings)
    edition = editions.live(serves).name
    if decision.act == "build":
        edition = CollectionName(f"{serves}--new")
    elif decision.act == "go_on":
        edition = editions.of(serves, "building")[0].name
    waits = rechunk.decide(now, settings).why
    return Outlook(serves, edition, decision, now.chunks, waits)


def bytes_a_record(folder: Path | None, records: int, dimensions: int) -> int:
    """What a record takes on disk: as much as those that are there, else about what Chroma needs for one."""
    if folder is None or not records or not folder.exists():
        return 8 * dimensions + 4000
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) // records
