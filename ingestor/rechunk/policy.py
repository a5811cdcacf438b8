"""Decides which editions a config wants, and the steps to them from the existing ones. Pure.

``editions_of`` decides for the daemon, for `plan` and for the simulation; ``swap`` carries its steps out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from ingestor.config.models import Rechunk
from ingestor.core.entries import Choices, Edition, EditionName
from ingestor.core.fingerprint import fingerprint
from ingestor.model import CollectionName
from ingestor.rechunk.recipes import Change, changes, merge
from ingestor.units import quantity

UNDONE = "this change of the config was undone by `ingestor rollback`"


@dataclass(frozen=True, slots=True)
class CollectionSituation:
    """A collection in the journal, beside what today's config wants of it.

    ``live``, ``building``: what the documents of that edition are made by, without parsers that read none;
    None where unknown, or where there is no such edition. ``embedder``: the recipe of the vectors.
    ``wanted``: what the config asks for. ``editions``: the live one, and the one in building if there is one.
    """

    live: Choices | None
    building: Choices | None
    embedder: str | None
    wanted: Choices
    empty: bool = False  # it has no records
    chunks: int = 0  # records of the sources that change
    tokens: int = 0  # estimated, of those sources
    asking: float = 0.0  # estimated cost of the language models that cut them
    approved: str | None = None  # what a person approved, as ``fingerprint_of``
    refused: str | None = None  # what a person rolled back from, as ``fingerprint_of``
    rebuild: str | None = None  # why all records must go into another collection under any config
    resharded: bool = False  # the collection in Chroma is divided otherwise than ``wanted``
    moved: bool = False  # the same config means another embedder on this machine
    editions: tuple[Edition, ...] = ()


@dataclass(frozen=True, slots=True)
class EditionSetup:
    """An edition to keep in step.

    ``edition``: None if it is to be built. ``choices``: what its documents are made by; None if unknown: then
    it only loses documents. ``building``: whether readers do not see it yet.
    """

    serves: CollectionName
    edition: EditionName | None
    choices: Choices | None
    building: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """Delete an edition in building that no config wants any more."""

    edition: EditionName


@dataclass(frozen=True, slots=True)
class Choose:
    """Note what the documents of an edition are made by from now on."""

    serves: CollectionName
    edition: EditionName
    choices: Choices


@dataclass(frozen=True, slots=True)
class Build:
    """Begin an edition that is to replace the live one."""

    serves: CollectionName
    choices: Choices


Step = Drop | Choose | Build


@dataclass(frozen=True, slots=True)
class Decision:
    """The act for a collection, with its reason.

    ``follow``: apply the wanted recipes to the live collection, in place. ``build``: build another edition.
    ``go_on``: the edition in building is the wanted one. ``keep``: the old recipes stay in force, for the
    reason ``why``. Every act but ``go_on`` drops the edition in building: a second write to it would leave
    records out of search's reach.
    """

    act: Literal["follow", "build", "go_on", "keep"]
    choices: Choices  # what the documents of that collection are made by
    changes: tuple[Change, ...] = ()
    why: str = ""


def editions_of(now: CollectionSituation, decision: Decision) -> list[EditionSetup]:
    """Return the editions of a collection to keep in step after a decision, the one of readers first."""
    live, *building = now.editions
    if decision.act in ("follow", "keep"):
        return [EditionSetup(live.serves, live.name, decision.choices)]
    built = building[0].name if decision.act == "go_on" else None
    return [
        EditionSetup(live.serves, live.name, live.choices),
        EditionSetup(live.serves, built, decision.choices, building=True),
    ]


def steps_to(setups: Iterable[EditionSetup], editions: Iterable[Edition]) -> list[Step]:
    """Return what leads from the editions of the journal to these setups."""
    stored = {each.name: each for each in editions}
    wanted = [*setups]
    kept = {setup.edition for setup in wanted}
    steps: list[Step] = [
        Drop(each.name) for each in stored.values() if each.role == "staging" and each.name not in kept
    ]
    for setup in wanted:
        if setup.choices is None:
            continue
        if setup.edition is None:
            steps.append(Build(setup.serves, setup.choices))
        elif stored[setup.edition].choices != setup.choices:
            steps.append(Choose(setup.serves, setup.edition, setup.choices))
    return steps


def decide(now: CollectionSituation, rechunk: Rechunk) -> Decision:
    """Decide the act for a collection in this state, under these settings."""
    decision = _by_config(now, rechunk)
    if not now.rebuild or now.empty or decision.act not in ("follow", "keep"):
        return decision
    under_way = now.building is not None and not changes(now.building, decision.choices)
    return replace(decision, act="go_on" if under_way else "build")


def _by_config(now: CollectionSituation, rechunk: Rechunk) -> Decision:
    wanted, live = now.wanted, now.live
    other_embedder = now.embedder not in (None, wanted["embedding"]["recipe"])
    anew = other_embedder or now.resharded  # not to be had document by document
    if now.empty and not now.resharded:
        return Decision("follow", wanted)
    if live is None:
        return Decision("build" if anew else "follow", wanted)
    differences = tuple(changes(live, wanted))
    if not (differences or other_embedder):
        return Decision("follow", wanted)
    token = fingerprint_of(wanted)
    if token == now.refused:
        return Decision("keep", merge(live, wanted), differences, UNDONE)
    if now.building is not None and not changes(now.building, wanted):
        return Decision("go_on", wanted, differences)
    if token != now.approved and (why := _asks(now, rechunk)):
        return Decision("keep", merge(live, wanted), differences, why)
    if anew or rechunk.mode == "swap":
        return Decision("build", wanted, differences)
    return Decision("follow", wanted, differences)


def fingerprint_of(choices: Choices) -> str:
    """Return the fingerprint by which an approval or a refusal is stored. Metadata needs neither."""
    return fingerprint({name: value for name, value in choices.items() if name != "metadata"})


def cost(tokens: int, rechunk: Rechunk) -> float:
    return tokens / 1e6 * rechunk.price


def _asks(now: CollectionSituation, rechunk: Rechunk) -> str:
    if now.moved:
        return "this machine computes other vectors than the machine that made them"
    bound = rechunk.approve
    if bound is not None and bound.chunks is not None and now.chunks > bound.chunks:
        return f"{quantity(now.chunks, 'chunk')} exceed the limit of {bound.chunks:,} (rechunk.approve)"
    price = cost(now.tokens, rechunk) + now.asking
    if bound is not None and bound.cost is not None and price > bound.cost:
        return f"the cost of about {price:.2f} exceeds the limit of {bound.cost:g} (rechunk.approve)"
    return ""
