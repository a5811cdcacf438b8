"""A confined process, in which binary formats are parsed and containers are opened (sandbox/pool.py).

Its standard input is a socket to the parent. When the parent ends for any reason, the socket is closed, and
this process ends, too. The order of the steps matters: only a process with one thread can enter namespaces,
and NumPy starts threads when it is imported. So the process is confined before it imports anything outside
the standard library.
"""

import os
import resource
import socket
import sys
from contextlib import suppress

from ingestor.confinement.walls import confine

_MOST_WORDS = 2**16  # bytes that the process may write to say why it does not start


def main(memory: int, folders: list[str]) -> None:
    """Confine this process, then answer requests until it ends.

    ``memory``: limit of its memory in bytes. ``folders``: folders of plugins outside the search path, which
    it must be able to read.
    """
    pipe = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    # The kernel ends this process first, rather than the daemon or Chroma, when memory runs out.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: _MOST_WORDS, resource.RLIMIT_NOFILE: 64}
    for what, most in limits.items():
        resource.setrlimit(what, (most, most))
    layers = confine(folders)
    from ingestor.sandbox.work import serve

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for standard in (0, 1, 2):  # libraries must not read or write the socket
        os.dup2(nothing, standard)
    serve(pipe, memory, layers)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
