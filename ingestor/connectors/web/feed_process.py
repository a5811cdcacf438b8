"""A feed is read in a process of its own, behind the walls of parsers, with limits of CPU time and memory.

feedparser takes quadratic time for some feeds, and holds Python's lock meanwhile. A feed of 50 kB, with
50,000 letters as an author, was not read after 6 s of CPU time.
"""

import json

from ingestor.confinement.python_child import python_child
from ingestor.confinement.walls import hide
from ingestor.connectors.programs.child import Missing, ProgramFailed, Run
from ingestor.connectors.web.feed_entries import FeedEntry, NoFeed, ParsedFeed
from ingestor.ports import Transient

_CHILD = "ingestor.connectors.web.feed_child"
SECONDS = 60  # of CPU time; 1 MB of sound entries takes 2.5 s, and 10 MB is the most
_PATIENCE = 10  # times as long may pass on a busy machine
_MEMORY = 2 * 10**9  # bytes
_ANSWER = 10**8  # bytes


def read(data: bytes, content_type: str | None, url: str, seconds: int = SECONDS) -> ParsedFeed:
    """Run ``entries`` in a process of its own. Raises NoFeed, also if a limit is exceeded, and Transient."""
    hide()  # the process runs as the same user, who may otherwise read and write our memory
    child = python_child("-m", _CHILD, str(seconds), str(_MEMORY))
    run = Run(
        child.command,
        child.environment,
        seconds=_PATIENCE * seconds,
        longest=_ANSWER,
    )
    try:
        *_, answer = map(json.loads, run.lines(json.dumps([content_type, url]).encode() + b"\n" + data))
    except Missing as error:
        raise Transient(f"the process that reads the feed can't be started: {error}") from error
    except (ProgramFailed, ValueError) as error:
        limits = f"{seconds} s and {_MEMORY:,} bytes of memory"
        raise NoFeed(f"the feed can't be read within {limits} ({error})") from error
    if "bad" in answer:
        raise NoFeed(answer["bad"])
    return ParsedFeed(tuple(FeedEntry(**entry) for entry in answer["entries"]), answer["whole"])
