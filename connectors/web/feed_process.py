"""A feed is read in a process of its own, with limits of CPU time and memory.

feedparser takes quadratic time for some feeds, and holds Python's lock meanwhile: it had not read a feed of
50 kB, with 50,000 letters as an author, after 6 s of CPU time.
"""

import json
import os
import resource
import sys
from dataclasses import asdict

from ingestor.connectors.programs.child import Failed, Missing, Run
from ingestor.connectors.web.feed_entries import Entry, Found, NoFeed, entries
from ingestor.ports import Transient

SECONDS = 60  # of CPU time; 1 MB of sound entries takes 2.5 s, and 10 MB is the most
_PATIENCE = 10  # times as long may pass on a busy machine
_MEMORY = 2 * 10**9  # bytes
_ANSWER = 10**8  # bytes
_ENVIRONMENT = ("PATH", "LANG", "PYTHONPATH", "LD_LIBRARY_PATH")


def read(data: bytes, content_type: str | None, url: str, seconds: int = SECONDS) -> Found:
    """As ``entries``. Raises NoFeed, also for what exceeds a limit, and Transient."""
    run = Run(
        [sys.executable, "-P", "-m", __name__, str(seconds)],
        {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        seconds=_PATIENCE * seconds,
        longest=_ANSWER,
    )
    try:
        *_, answer = map(json.loads, run.lines(json.dumps([content_type, url]).encode() + b"\n" + data))
    except Missing as error:
        raise Transient(f"no process can be started that reads the feed: {error}") from error
    except (Failed, ValueError) as error:
        limits = f"{seconds} s and {_MEMORY:,} bytes of memory"
        raise NoFeed(f"it can't be read within {limits} ({error})") from error
    if "bad" in answer:
        raise NoFeed(answer["bad"])
    return Found(tuple(Entry(**entry) for entry in answer["entries"]), answer["whole"])


def main(seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    content_type, url = json.loads(sys.stdin.buffer.readline())
    try:
        found = entries(sys.stdin.buffer.read(), content_type, url)
        answer = {"entries": [asdict(entry) for entry in found.entries], "whole": found.whole}
    except NoFeed as error:
        answer = {"bad": str(error)}
    except RecursionError:
        answer = {"bad": "it is nested too deeply"}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(int(sys.argv[1]))
