"""Verdict on a document whose preparing process died. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

TWICE = 2  # processes that a document may kill before it is quarantined
LOST_NODES = 3  # in a row, that one attempt outlives
LOST_STARTS = 3  # in a row, before what waits for a process waits as after other errors
SHORT_OF_MEMORY = 4  # processes that the machine ended for want of memory, before the document is blamed

Cause = Literal["crash", "node", "memory"]
Verdict = Literal["again", "later", "quarantine"]


@dataclass(frozen=True, slots=True)
class Death:
    """``cause``: the process ended by itself (crash), its node was lost (node), or the node ended it since it
    had no memory left (memory). ``reason``: what is known of the death, for people."""

    node: str
    cause: Cause
    reason: str = ""


class ProcessLost(Exception):
    """The process is gone, and with it the work that it did."""

    def __init__(self, death: Death) -> None:
        super().__init__(death.reason)
        self.death = death


def judge(deaths: Sequence[Death]) -> Verdict:
    """Judge a document by all processes that died while they prepared this version of the document.

    A lost node is no fault of the document. A crash on a node that lives on may be: once is chance.
    """
    counted = [death.cause for death in deaths]
    if counted.count("crash") >= TWICE or counted.count("memory") >= SHORT_OF_MEMORY:
        return "quarantine"
    if deaths and deaths[-1].cause == "memory":
        return "later"
    lost = next((at for at, cause in enumerate(reversed(counted)) if cause != "node"), len(counted))
    return "later" if lost and lost % LOST_NODES == 0 else "again"


def describe(deaths: Sequence[Death]) -> str:
    """Describe deaths for people: where, and of what; the same death is named once, with a count."""
    counts = Counter(f"{death.node}: {death.reason}" if death.reason else death.node for death in deaths)
    return "; ".join(each if times == 1 else f"{each}, {times} times" for each, times in counts.items())
