"""Repeats work whose process on a node ended, up to a limit. Pure."""

from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeVar

from ingestor.ports import BadDocument, Transient

_CRASHES = 2  # crashed processes before a document is quarantined; a single crash may be chance
_LOSSES = 3  # lost nodes and failed starts before an attempt fails

Cause = Literal["crash", "start", "node", "memory"]
T = TypeVar("T")


class ProcessLost(Exception):
    """Error: a process ended at work (crash), before it (start), with its node, or for lack of memory."""

    def __init__(self, cause: Cause, reason: str, node: str = "") -> None:
        super().__init__(f"{node}: {reason}" if node else reason)
        self.cause = cause


def repeat_if_lost(work: Callable[[bool], T], note: Callable[[ProcessLost], None] = lambda death: None) -> T:
    """Call ``work`` until no process is lost, and return its result.

    ``work``: takes whether an earlier process was lost. ``note``: called with each loss. Raises BadDocument
    if the work crashes processes. Raises Transient if other losses repeat, or if the node lacks memory:
    another process would need as much.
    """
    deaths = list[ProcessLost]()
    while True:
        try:
            return work(bool(deaths))
        except ProcessLost as death:
            deaths.append(death)
            note(death)
        crashes, count = sum(death.cause == "crash" for death in deaths), Counter(map(str, deaths))
        reasons = "; ".join(each if times == 1 else f"{each}, {times} times" for each, times in count.items())
        if crashes == _CRASHES:
            raise BadDocument(
                f"crashes processes on nodes ({reasons}); exclude or split the document; to retry: "
                "`ingestor retry`"
            )
        if deaths[-1].cause == "memory" or len(deaths) - crashes == _LOSSES:
            raise Transient(f"processes on nodes ended ({reasons})")
