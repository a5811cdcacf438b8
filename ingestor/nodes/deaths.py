"""How many processes on nodes a piece of work outlives. Pure."""

from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeVar

from ingestor.ports import BadDocument, Transient

_CRASHES = 2  # processes that a document may end before it is quarantined: one is chance
_LOSSES = 3  # nodes and starts that an attempt outlives

Cause = Literal["crash", "start", "node", "memory"]
T = TypeVar("T")


class ProcessLost(Exception):
    """A process ended at work (crash), before its work (start), with its node, or for want of memory."""

    def __init__(self, cause: Cause, reason: str, node: str = "") -> None:
        super().__init__(f"{node}: {reason}" if node else reason)
        self.cause = cause


def outlive(work: Callable[[bool], T], note: Callable[[ProcessLost], None] = lambda death: None) -> T:
    """Return the result of the first process that lives to its end.

    ``work``: gets whether a process was lost before. ``note``: called with each loss. Raises BadDocument if
    the work crashes processes. Raises Transient if other losses repeat, or the node lacks memory: another
    process would need as much.
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
