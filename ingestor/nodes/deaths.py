"""Verdict on a document, or on texts, whose process died. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

TWICE = 2  # processes that a document may kill before it is quarantined
LOST_IN_A_ROW = 3  # nodes or starts in a row, that one attempt outlives
SHORT_OF_MEMORY = 4  # processes that the machine ended for want of memory, before the document is blamed

Cause = Literal["crash", "start", "node", "memory"]
Verdict = Literal["again", "later", "quarantine"]


@dataclass(frozen=True, slots=True)
class Death:
    """End of a process: at work (crash), before its work (start), with its node (node), or for want of
    memory.

    ``reason``: text for people.
    """

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

    A lost node or start is no fault of the document. A crash on a node that lives on may be: once is chance.
    """
    causes = [death.cause for death in deaths]
    if causes.count("crash") >= TWICE or causes.count("memory") >= SHORT_OF_MEMORY:
        return "quarantine"
    if deaths and deaths[-1].cause == "memory":
        return "later"
    blameless = [cause in ("node", "start") for cause in reversed(causes)]
    lost = blameless.index(False) if False in blameless else len(blameless)
    return "later" if lost and lost % LOST_IN_A_ROW == 0 else "again"


def describe(deaths: Sequence[Death]) -> str:
    """Describe deaths for people: where, and of what; the same death is named once, with a count."""
    counts = Counter(f"{death.node}: {death.reason}" if death.node else death.reason for death in deaths)
    return "; ".join(each if times == 1 else f"{each}, {times} times" for each, times in counts.items())
