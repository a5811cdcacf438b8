"""Common parts of mails of all formats: paragraphs of a body, and people's names. Pure."""

import re
from collections.abc import Iterator

_QUOTED = re.compile(r"[ \t]?>")


def paragraphs(body: str) -> Iterator[tuple[str, str]]:
    """(kind of block, text): runs of quoted lines, and of others up to a blank line."""
    kind, run = "paragraph", list[str]()
    for line in body.splitlines():
        now = "quote" if _QUOTED.match(line) else "paragraph"
        if now != kind or not line.strip():
            yield kind, "\n".join(run)
            kind, run = now, []
        run.append(line)
    yield kind, "\n".join(run)


def written(name: str, address: str) -> str:
    """``Ada <ada@example.org>``, or the one that is known."""
    return f"{name} <{address}>" if name and address else name or address
