"""Daemons and Chroma servers as forks of a process that has imported all that they need.

A new Python needs a second of processor time to import the program, Chroma and the models of languages and
tokens. So each process of pytest has a server that has imported all that once and does nothing else; it is
forked for every daemon and every Chroma. Each has a process of its own all the same, with an environment,
group, folder, output and end of its own. Tests of how the program and Chroma start begin Python as people do.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from multiprocessing import get_context, reduction
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, TypedDict, Unpack
from unittest.mock import patch

from ingestor.chroma import child, folder, server
from ingestor.cli.main import main
from ingestor.confinement.python_child import python_child

SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(["tests.e2e.warm"])


@dataclass(frozen=True)
class Running:
    """A process that goes on, with what tests use of ``subprocess.Popen``."""

    process: BaseProcess

    @property
    def pid(self) -> int:
        assert self.process.pid
        return self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        self.process.join(seconds)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self.pid), seconds or 0)
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    main: Callable[[], None], command: list[str], folder: Path, environment: Mapping[str, str], log: Path
) -> Running:
    """Run ``main`` with ``command`` as its ``sys.argv``; ``log`` gets all that it says."""
    log.touch()
    process = SERVER.Process(target=_begin, args=(main, command, folder, dict(environment), log, log))
    process.start()
    return Running(process)


def _begin(
    main: Callable[[], None],
    command: list[str],
    folder: Path,
    environment: dict[str, str],
    out: Path,
    err: Path,
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for path, number in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.stdout, sys.stderr = _stream(1), _stream(2)
    sys.argv = command
    main()


def _stream(number: int) -> TextIOWrapper:
    return open(number, "w", encoding="utf-8", buffering=1, closefd=False)


_FAILED = 70  # exit status


def program() -> None:
    """Run ``ingestor`` in a forked process, which forks its Chroma server, too."""
    with _started_by(_fork):
        main()


@contextmanager
def from_server() -> Iterator[None]:
    """Fork every Chroma from the server."""
    with _started_by(_served):
        yield


@contextmanager
def _started_by(start: Callable[..., object]) -> Iterator[None]:
    def child(*words: str, **environment: Any) -> SimpleNamespace:
        described = python_child(*words, **environment)
        return SimpleNamespace(start=partial(start, described.command, env=described.environment))

    ours = (*folder._CHILDREN, "multiprocessing.forkserver")  # the command line that a fork keeps
    with patch.object(server, "python_child", child), patch.object(folder, "_CHILDREN", ours):
        yield


def _fork(command: Sequence[str], **options: Any) -> object:
    alone = threading.active_count() == 1  # a fork has the locks that other threads held
    return _Forked(command, **options) if alone else subprocess.Popen(command, **options)


class _Options(TypedDict):
    """The arguments that ``ChromaServer`` passes to ``subprocess.Popen``."""

    stdin: int
    stdout: IO[bytes]
    stderr: IO[bytes]
    env: Mapping[str, str]
    pass_fds: Sequence[int]
    process_group: int


class _Forked:
    """What ``ChromaServer`` uses of ``subprocess.Popen``, of a fork of this process."""

    def __init__(self, command: Sequence[str], **options: Unpack[_Options]) -> None:
        stdin, output, [listener] = options["stdin"], options["stdout"].fileno(), options["pass_fds"]
        self._status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _close_others([stdin, output, listener])
                _run(command[-1], options["env"], stdin, output, listener, listener)
            finally:
                os._exit(_FAILED)

    def poll(self) -> int | None:
        if self._status is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if ended else None
        return self._status

    def wait(self, seconds: float = 1e9) -> int:
        until = time.monotonic() + seconds
        while (status := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("chroma", seconds)
            time.sleep(0.005)
        return status

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _served(command: Sequence[str], **options: Unpack[_Options]) -> Running:
    """Fork the server: this process has threads, and is large."""
    stdin, output, [listener] = options["stdin"], options["stdout"].fileno(), options["pass_fds"]
    given = [_Descriptor(each) for each in (stdin, output, listener)]
    arguments = (command[-1], dict(options["env"]), *given, listener)
    process = SERVER.Process(target=_run, args=arguments, daemon=True)
    process.start()
    return Running(process)


class _Descriptor:
    """An open file that a process of the server gets; there it is the number that it has."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self._number),)


def _received(passed: Any) -> int:
    number: int = passed.detach()
    return number


def _run(path: str, env: Mapping[str, str], stdin: int, output: int, listener: int, number: int) -> None:
    """``number``: what the process that starts this one calls the listener."""
    os.setpgid(0, 0)
    for signalled in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signalled, signal.SIG_DFL)
    for origin, place in ((stdin, 0), (output, 1), (output, 2), (listener, number)):
        os.dup2(origin, place)
    os.environ.clear()
    os.environ.update(env)
    child.main(path)


def _close_others(kept: Sequence[int]) -> None:
    numbers = sorted({0, 1, 2, *kept})
    for before, after in zip(numbers, [*numbers[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(before + 1, after)
