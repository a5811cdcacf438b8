"""Finds out where a state is, so that a copy of it elsewhere is told from it."""

import socket
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from ingestor.config.models import Config
from ingestor.core.generation import Home

_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def here(config: Config) -> Home:
    """The home of the state that a config names. The machine's id is confidential, so its digest is kept."""
    machine = next(filter(None, map(_digest, _MACHINE_IDS)), "")
    chroma: Path | None = getattr(config.chroma, "path", None)
    return Home(
        machine,
        socket.gethostname(),
        str(config.state.resolve()),
        "" if chroma is None else str(chroma.resolve()),
    )


def _digest(file: Path) -> str:
    with suppress(OSError):
        if text := file.read_text(errors="replace").strip():
            return blake2b(text.encode(), digest_size=8, person=b"ingestor").hexdigest()
    return ""
