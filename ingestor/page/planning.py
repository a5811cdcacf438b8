"""A dry run: ``ingestor plan`` in a process of its own, with little priority, one at a time.

It reads every new document, which would hold the daemon up if it were done here.
"""

import json
import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from ingestor.confinement.python_child import PythonChild, python_child

LONGEST = 4_000_000  # bytes of what it says that are read
PATIENCE = 1800.0  # seconds; then it is ended
_NICE = 10
_PLAIN = {"COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb"}
_RUN = "import sys; from ingestor.cli.main import main; sys.exit(main())"


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """``begun``, ``ended``: POSIX seconds. ``text``: what the command says; None while it runs.

    ``found``: the plan as `ingestor plan --json` prints it; None where the command printed none.
    """

    begun: float
    ended: float | None = None
    text: str | None = None
    found: Mapping[str, Any] | None = None

    @property
    def works(self) -> bool:
        """Whether a sync would change anything."""
        if self.found is None:
            return False
        settled = ("unchanged", "quarantined", "unsupported", "due")
        documents = {kind: n for kind, n in self.found["documents"].items() if kind not in settled}
        return any((*documents.values(), *self.found["records"].values(), self.found["renamed"]))


class Planner:
    """``child``: what makes a plan. Callers take turns: a page's worker thread asks at a time."""

    def __init__(self, child: PythonChild) -> None:
        self._child = child
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._plan: ShownPlan | None = None

    def begin(self) -> None:
        """Begin a plan, unless one is being made."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        self._said = TemporaryFile()  # noqa: SIM115 - closed by ``close``
        self._process = self._child.start(
            stdin=subprocess.DEVNULL, stdout=self._said, stderr=subprocess.STDOUT
        )
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)
        self._plan = ShownPlan(time.time())

    def latest(self) -> ShownPlan | None:
        """The plan that is being made, or the last one."""
        plan, process, said = self._plan, self._process, self._said
        if plan is None or plan.text is not None or process is None or said is None:
            return plan
        if process.poll() is None:
            if time.time() - plan.begun > PATIENCE:
                process.kill()
            return plan
        text = os.pread(said.fileno(), LONGEST, 0).decode("utf-8", "replace")
        text = text.strip() or "The plan could not be made."
        self._plan = ShownPlan(plan.begun, time.time(), text, _parsed(text))
        return self._plan

    def close(self) -> None:
        """End what runs."""
        if self._process is not None:
            with suppress(OSError):
                self._process.kill()
            self._process.wait()
        if self._said is not None:
            self._said.close()
        self._process = self._said = None


def _parsed(text: str) -> Mapping[str, Any] | None:
    """The JSON object in the last line; None if there is none."""
    try:
        found = json.loads(text.splitlines()[-1])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "documents" in found else None


def planner(config: Path) -> Planner:
    """Plan the config file, whose secrets may stand in any variable."""
    words = ("-c", _RUN, "plan", "--json", "--config", str(config))
    return Planner(python_child(*words, secrets=True, variables=_PLAIN))
