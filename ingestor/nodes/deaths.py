"""Repeats work whose process on a node was lost, up to a limit for each cause. Pure."""

from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeVar

from ingestor.ports import BadDocument, Transient

_CRASHES = 2  # crashed processes before a document is quarantined; a single crash may be chance
_LOSSES = 3  # lost nodes and failed starts before an attempt fails

Cause = Literal["crash", "start", "node", "memory"]
T = TypeVar("T")


class ProcessLost(Exception):
    """Error: a process on a node ended before its work was done.

    ``cause``: "crash" if the process ended at work, "start" if it ended before its work began, "node" if the
    node was lost. The cause is "memory" if the node ran out of memory. ``node``: name of the node; "" if the
    process had not started.
    """

    def __init__(self, cause: Cause, reason: str, node: str = "") -> None:
        super().__init__(f"{node}: {reason}" if node else reason)
        self.cause = cause


def repeat_if_lost(work: Callable[[bool], T], note: Callable[[ProcessLost], None] = lambda death: None) -> T:
    """Call ``work`` until it returns a result instead of raising ProcessLost, and return the result.

    ``work`` gets True if a process was lost before. ``note``: called with each ProcessLost. Raises
    BadDocument after two crashes, since the document may cause them. Raises Transient after three other
    losses. Raises Transient also if a node ran out of memory, since another process would need as much.
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
            raise Transient(f"processes on nodes ended, will be retried ({reasons})")
