"""``chroma run`` as a process that ends with the one that started it; see chroma/server.py.

Run as a script, with the server's command line as its arguments and a pipe as its standard input, of which
the parent holds the other end: when the parent is gone, however it went, the pipe ends. This imports nothing
of ingestor, and of chromadb only the server itself, so it starts in a fraction of a second.
"""

import os
import signal
import sys
import threading
import time

import chromadb_rust_bindings  # type: ignore[import-untyped]

_PATIENCE = 30.0  # seconds to persist what is in memory, once told to end


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    os.umask(0o077)  # what it writes quotes documents
    threading.Thread(target=_end_with_parent, daemon=True).start()
    chromadb_rust_bindings.cli(["chroma", *sys.argv[1:]])
