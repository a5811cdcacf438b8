"""Starts programs that the kernel kills when this process ends for any reason.

A program inherits the read end of a pipe whose write end stays with this process. When this process ends, the
kernel closes the write end, and kills the program's process group (F_SETOWN in fcntl(2)). That needs no
cooperation of the program. Systems other than Linux do not kill it. This module imports the standard library
only.
"""

import fcntl
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any
from weakref import finalize


class BoundChild(subprocess.Popen[bytes]):
    """A running program in a session and process group of its own, which does not outlive this process.

    Nor does the group outlive this object. If this process ends in the instant before ``__init__`` returns,
    the kernel may not kill the program. So a program that could run for long must first read its standard
    input, which the caller writes afterwards.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], **streams: Any) -> None:
        """Start the program. ``streams``: arguments of ``Popen``. Raises OSError."""
        with ExitStack() as undo:
            self._life, ours = os.pipe()
            for end in (ours, self._life):
                undo.callback(os.close, end)
            super().__init__(
                command, env=environment, pass_fds=[self._life], start_new_session=True, **streams
            )
            with suppress(AttributeError, OSError):
                fcntl.fcntl(self._life, fcntl.F_SETOWN, -self.pid)
                fcntl.fcntl(self._life, fcntl.F_SETSIG, signal.SIGKILL)
                fcntl.fcntl(self._life, fcntl.F_SETFL, os.O_ASYNC)
            finalize(self, undo.pop_all().close)

    def release(self) -> None:
        """Let processes of the group outlive this process."""
        fcntl.fcntl(self._life, fcntl.F_SETOWN, 0)
