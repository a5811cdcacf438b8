"""What a changed config means for a collection that is there already: decided, not done. Pure.

Nothing here touches anything; ``swaps`` does what is decided, and records it first.
"""

from dataclasses import dataclass, replace
from typing import Literal

from ingestor.config.models import Rechunk
from ingestor.core.fingerprint import fingerprint
from ingestor.rechunk.recipes import Change, Choices, changes, merged


@dataclass(frozen=True, slots=True)
class Situation:
    """How one collection stands. ``live`` is None where it is not known what its documents are made by.

    ``embedder``: the recipe that its vectors are of.
    """

    live: Choices | None
    building: Choices | None
    embedder: str | None
    wanted: Choices
    empty: bool = False  # it has no records
    chunks: int = 0  # records of the sources that change
    tokens: int = 0  # about; of those sources
    asking: float = 0.0  # about: what language models take for cutting them
    approved: str | None = None  # what someone said yes to
    refused: str | None = None  # what someone rolled back from
    rebuild: str | None = None  # why it is to be written into another collection, whatever the config says
    moved: bool = False  # the same config means another embedder on this machine


@dataclass(frozen=True, slots=True)
class Decision:
    """``follow``: the live collection takes on what is wanted, in place. ``build``: another is made beside
    it; ``go_on``: the one being made is what is wanted. ``keep``: the old way stays in force, for ``why``.
    With any act but ``go_on`` what is being built is dropped: documents that are written twice leave records
    out of search's reach.
    """

    act: Literal["follow", "build", "go_on", "keep"]
    choices: Choices  # what the collection that is acted on is made by
    changes: tuple[Change, ...] = ()
    why: str = ""


def decide(now: Situation, rechunk: Rechunk) -> Decision:
    decision = _by_config(now, rechunk)
    if not now.rebuild or now.empty or decision.act not in ("follow", "keep"):
        return decision
    under_way = now.building is not None and not changes(now.building, decision.choices)
    return replace(decision, act="go_on" if under_way else "build")


def _by_config(now: Situation, rechunk: Rechunk) -> Decision:
    wanted, live = now.wanted, now.live
    other_embedder = now.embedder not in (None, wanted["embedding"]["recipe"])
    if now.empty:
        return Decision("follow", wanted)
    if live is None:
        return Decision("build" if other_embedder else "follow", wanted)
    found = tuple(changes(live, wanted))
    if not (found or other_embedder):
        return Decision("follow", wanted)
    token = named(wanted)
    if token == now.refused:
        return Decision("keep", merged(live, wanted), found, "it was rolled back")
    if now.building is not None and not changes(now.building, wanted):
        return Decision("go_on", wanted, found)
    if token != now.approved and (why := _asks(now, rechunk)):
        return Decision("keep", merged(live, wanted), found, why)
    if other_embedder or rechunk.mode == "swap":
        return Decision("build", wanted, found)
    return Decision("follow", wanted, found)


def named(choices: Choices) -> str:
    """What approvals and refusals name."""
    return fingerprint(dict(choices))


def cost(tokens: int, rechunk: Rechunk) -> float:
    return tokens / 1e6 * rechunk.price


def _asks(now: Situation, rechunk: Rechunk) -> str:
    if now.moved:
        return "this machine computes vectors in another way than the one that made them"
    bound = rechunk.approve
    if bound is not None and bound.chunks is not None and now.chunks > bound.chunks:
        return f"{now.chunks} chunks are more than the {bound.chunks} that need no approval"
    price = cost(now.tokens, rechunk) + now.asking
    if bound is not None and bound.cost is not None and price > bound.cost:
        return f"it costs about {price:.2f}, more than the {bound.cost:g} that need no approval"
    return ""
