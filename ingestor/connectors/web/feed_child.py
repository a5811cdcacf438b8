"""Program of the process that parses one feed; see feed.py.

The process is confined before it imports feedparser or anything else outside the standard library.
"""

import json
import resource
import sys
from dataclasses import asdict

import ingestor.connectors
from ingestor.confinement.walls import confine

_FILES = 64  # open files at most


def main(seconds: int, memory: int) -> None:
    """Parse a feed from standard input, and print its entries, or why the feed is invalid, as JSON.

    The input is a line of JSON with content type and address, and then the bytes of the feed. ``seconds``:
    limit of CPU time. ``memory``: limit of memory in bytes.
    """
    limits = {"CPU": seconds, "AS": memory, "CORE": 0, "FSIZE": 0, "NOFILE": _FILES}
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    confine([*ingestor.__path__, *ingestor.connectors.__path__])
    content_type, url = json.loads(sys.stdin.buffer.readline())
    sys.stdout.write(json.dumps(_read(sys.stdin.buffer.read(), content_type, url)))


def _read(data: bytes, content_type: str | None, url: str) -> dict[str, object]:
    from ingestor.connectors.web.feed_entries import NoFeed, entries  # imported in confinement

    try:
        listed = entries(data, content_type, url)
    except NoFeed as error:
        return {"bad": str(error)}
    except RecursionError:
        return {"bad": "nested too deeply"}
    return {"entries": [asdict(entry) for entry in listed.entries], "whole": listed.whole}


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
