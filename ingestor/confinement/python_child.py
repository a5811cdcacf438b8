"""Describes Python child processes. Every child of this program that runs Python is described here.

The option ``-P`` keeps the working directory and a script's folder off the search path. Environment variables
are passed by name, so that secrets do not reach children by accident. This module imports the standard
library only.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

_PASSED = frozenset(
    {
        *("HOME", "LANG", "LANGUAGE", "PATH", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH"),
    }
)
_PYTHON = frozenset({"PYTHONHOME", "PYTHONPATH", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONUTF8"})
# Search paths, in which an empty entry means the working directory.
_SEARCHED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class PythonChild:
    """The command and the environment variables of a child process that is not started yet."""

    command: tuple[str, ...]
    environment: dict[str, str]

    def start(self, **streams: Any) -> "subprocess.Popen[bytes]":
        """Start the process, which must end by itself when this process ends; see bound_child.py for others.

        ``streams``: further arguments of ``Popen``, such as ``stdin``.
        """
        return subprocess.Popen(self.command, env=self.environment, **streams)  # noqa: S603 - our own program


def python_child(
    *words: str,
    secrets: bool = False,
    passed: frozenset[str] = frozenset(),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> PythonChild:
    """Describe a Python child process that is to be started.

    ``words``: the arguments after ``python -P``. ``secrets``: whether to pass all variables except Python's
    own, for children that resolve ``${VAR}`` in the config. ``passed``: names of more variables to pass.
    ``variables``: values of more variables to set.
    """
    names = _PASSED | _PYTHON | passed
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in names or name.startswith("LC_") or (secrets and not name.startswith("PYTHON"))
    }
    return PythonChild((sys.executable, "-P", *words), {**absolute_paths(kept), **variables})


def processor_seconds(pid: int) -> float | None:
    """Return the processor time of a process, all threads together; None if it ended or /proc is missing."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def absolute_paths(environment: Mapping[str, str]) -> dict[str, str]:
    """Remove relative entries from variables that are search paths. Leave out variables that become empty."""
    kept = dict(environment)
    for name in kept.keys() & set(_SEARCHED):
        entries = [entry for entry in kept[name].split(os.pathsep) if os.path.isabs(entry)]  # noqa: PTH117
        kept[name] = os.pathsep.join(entries)
    return {name: value for name, value in kept.items() if value or name not in _SEARCHED}
