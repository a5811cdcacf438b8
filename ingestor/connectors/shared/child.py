"""Runs a program, reads its output within limits, and ends the program with all its children.

The program has a process group of its own. The group is killed when the caller stops reading, at the time
limit, and when ingestor ends for any reason. Standard error is read too, so that the program never blocks;
its last lines explain failures.
"""

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from weakref import finalize

from ingestor.confinement.bound_child import BoundChild

_TICK = 0.5  # seconds between checks whether the program ended while a child holds its output open
_GRACE = 3.0  # seconds between SIGTERM and SIGKILL
_PART = 1 << 16  # bytes read at once
_LAST_WORDS = 20_000  # last bytes of standard error that are kept
_SECRET = 4  # shortest secret that is hidden; shorter values are numbers or yes and no
_TELLING = re.compile(r"error|critical|fatal|exception|denied|invalid|failed", re.IGNORECASE)


class ProgramFailed(Exception):
    """Error: a program failed.

    The message contains no secrets. ``words``: last part of its standard error.
    """

    def __init__(self, reason: str, words: str = "") -> None:
        last = last_words(words)
        super().__init__(f"{reason}: {last}" if last else reason)
        self.reason, self.words = reason, words


class RanTooLong(ProgramFailed):
    """Error: a program ran longer than its time limit, and was ended."""


class OutputTooLong(ProgramFailed):
    """Error: a program printed more than the limit."""


class Missing(Exception):
    """Error: the program to run does not exist."""


@dataclass(frozen=True, slots=True)
class Run:
    """A program to run, with its environment and its limits."""

    command: Sequence[str]
    environment: Mapping[str, str]  # all variables
    seconds: float = 3600.0
    longest: int = 10**8  # bytes of a line of output
    secrets: Sequence[str] = ()  # hidden in messages
    helpers_stay: bool = False  # whether processes that the program started may run on after a success

    def lines(self, given: bytes = b"") -> Iterator[bytes]:
        """Run the program, and yield the lines that it prints, without line ends.

        ``given``: standard input of the program. Raises Missing. Raises ProgramFailed for a bad exit status,
        after the time limit, and for a line that is too long; lines may have been yielded before.
        """
        return self._run(given, lambda reader: reader.lines(self.longest))

    def output(self, most: int, given: bytes = b"") -> bytes:
        """Run the program, and return its output. Raises Missing or ProgramFailed.

        ``most``: limit of the output in bytes, beyond which the program counts as failed. ``given``: standard
        input of the program.
        """
        return b"".join(self._run(given, lambda reader: reader.parts(most)))

    def _run(self, given: bytes, read: Callable[["_Reader"], Iterator[bytes]]) -> Iterator[bytes]:
        try:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = BoundChild(self.command, self.environment, bufsize=0, **pipes)
        except (OSError, ValueError) as error:
            raise Missing(getattr(error, "strerror", None) or str(error)) from error
        reader = _Reader(process, memoryview(given), time.monotonic() + self.seconds)
        ending = finalize(process, _end, process.pid)
        try:
            yield from read(reader)
            reader.await_end()
            if self.helpers_stay:
                ended = os.waitid(os.P_PID, process.pid, _PEEK)
                if ended is not None and ended.si_status == 0:
                    ending.detach()
                    process.release()
        except ProgramFailed as failed:
            raise type(failed)(failed.reason, self._words(reader)) from None
        finally:
            ending()
            status = process.wait()
            reader.close()
        if status:
            by = (
                f"was ended by {signal.Signals(-status).name}"
                if status < 0
                else f"ended with exit status {status}"
            )
            raise ProgramFailed(f"the program {by}", self._words(reader))

    def _words(self, reader: "_Reader") -> str:
        return self.without_secrets(reader.last_bytes.decode("utf-8", "replace"))

    def without_secrets(self, text: str) -> str:
        """Replace each secret in a text by ``…``. Very short secrets are not replaced."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "…") if len(secret) >= _SECRET else text
        return text


_PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT  # the exit status can still be read later


@dataclass(slots=True)
class _Reader:
    """Writes the input of a process and reads its output until a deadline.

    ``given``: rest of the input. ``until``: deadline in monotonic seconds. ``last_bytes``: last bytes of
    standard error.
    """

    process: BoundChild
    given: memoryview
    until: float
    last_bytes: bytes = b""

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            stream.close()

    def await_end(self) -> None:
        """Wait until the process has exited, after its output has ended.

        Raises ProgramFailed if it goes on running. The exit status is not collected yet, so that the id of
        the process group stays valid.
        """
        until = time.monotonic() + _GRACE
        while _runs(self.process.pid):
            if time.monotonic() > until:
                raise ProgramFailed("the program closed its output but did not exit")
            time.sleep(0.005)

    def lines(self, longest: int) -> Iterator[bytes]:
        line = bytearray()
        for part in self.parts():
            *ends, rest = part.split(b"\n")
            for end in ends:
                yield bytes(line + end)
                line.clear()
            line += rest
            if len(line) > longest:
                raise OutputTooLong(f"a line of output has more than {longest:,} bytes")
        if line:
            yield bytes(line)

    def parts(self, most: int | None = None) -> Iterator[bytes]:
        """Yield standard output as it arrives. The end of standard error is kept in ``last_bytes``.

        ``most``: limit of the output in bytes. With a limit, the ends of both streams are awaited. Raises
        ProgramFailed.
        """
        assert self.process.stdin and self.process.stdout and self.process.stderr
        stdin, stdout, stderr = (
            stream.fileno() for stream in (self.process.stdin, self.process.stdout, self.process.stderr)
        )
        size = 0
        with selectors.DefaultSelector() as selector:
            os.set_blocking(stdin, False)
            selector.register(stdin, selectors.EVENT_WRITE)
            for stream in (stdout, stderr):
                selector.register(stream, selectors.EVENT_READ)
            awaited = {stdout} if most is None else {stdout, stderr}
            while awaited & selector.get_map().keys():
                over, left = not _runs(self.process.pid), self.until - time.monotonic()
                ready = selector.select(0 if over else min(_TICK, max(left, 0)))
                for key, _ in ready:
                    part = self._write(stdin) if key.fd == stdin else os.read(key.fd, _PART)
                    if not part:
                        selector.unregister(key.fd)
                    elif key.fd == stdout:
                        size += len(part)
                        yield part
                    elif key.fd == stderr:
                        self.last_bytes = (self.last_bytes + part)[-_LAST_WORDS:]
                if over and not ready:
                    return  # a child of the program holds its output open
                if most is not None and size > most:
                    raise OutputTooLong(f"the program printed more than {most:,} bytes")
                if time.monotonic() >= self.until:
                    raise RanTooLong("the program ran longer than `timeout` and was killed: raise `timeout`")

    def _write(self, stdin: int) -> bytes:
        """Write a part of the input, and return the first byte of the rest.

        If nothing is left, close the program's input, and return b"".
        """
        try:
            self.given = self.given[os.write(stdin, self.given[:_PART]) :]
        except BrokenPipeError:  # the program does not read its input
            self.given = memoryview(b"")
        if not self.given:
            assert self.process.stdin
            self.process.stdin.close()
        return bytes(self.given[:1])


def _end(group: int) -> None:
    """End all processes of a group: by SIGTERM, and after some seconds by SIGKILL."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGTERM)
        until = time.monotonic() + _GRACE
        while time.monotonic() < until and _runs(group):
            time.sleep(0.02)
        os.killpg(group, signal.SIGKILL)


def _runs(process: int) -> bool:
    return os.waitid(os.P_PID, process, _PEEK) is None


def last_words(words: str) -> str:
    """Return the lines of a program's standard error that explain its failure.

    These are the last three lines that look like errors, or else the last line.
    """
    lines = [line.strip()[:500] for line in words.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    return " / ".join(telling[-3:] or lines[-1:])
