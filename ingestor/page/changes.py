"""The page of changes: decisions that a person must make, plans, and the actions of the buttons on all pages.

Each button does the same as the command of its name. A plan is computed by ``ingestor plan``, one at a time,
in a process of low priority, because reading every new document would delay the daemon.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT, TimeoutExpired
from tempfile import TemporaryFile
from typing import IO, Any

from ingestor.app.handover import sources_not_in_config
from ingestor.config.models import Config
from ingestor.confinement.bound_child import BoundChild
from ingestor.confinement.python_child import PythonChild, python_child
from ingestor.core.errors import kind_of
from ingestor.http_server.requests import RequestProblem
from ingestor.page.overview import collections_now, sources_now
from ingestor.page.site import Action, Form
from ingestor.queries.access import BadRequest, journal_of
from ingestor.queries.changes import approve, roll_back
from ingestor.queries.reading import history
from ingestor.queries.sources import accept_loss, pause_sources, resume_sources
from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import Situation
from ingestor.state.reports import FEW, find_named, rows_of_failed
from ingestor.units import quantity

LONGEST = 4_000_000  # bytes that are read of a plan's output
PATIENCE = 1800.0  # seconds after which a plan is cancelled
_ENDING = 10.0  # seconds for a cancelled plan to delete its copy of the journal, before it is killed
_NICE = 10
_PLAIN = {"COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb"}
# A line of input shows that the parent is alive, and that this process will end with it.
_RUN = "import sys\nif sys.stdin.readline():\n from ingestor.cli.main import main\n sys.exit(main())"


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """A plan that a person requested on the page.

    ``begun``, ``ended``: POSIX seconds. ``text``: output of ``ingestor plan``; None while the command runs.
    ``parsed``: fields of ``ingestor plan --json``; None if the command printed no plan.
    """

    begun: float
    ended: float | None = None
    text: str | None = None
    parsed: Mapping[str, Any] | None = None

    @property
    def works(self) -> bool:
        """Return whether a sync would change any document or record."""
        if self.parsed is None:
            return False
        settled = ("unchanged", "quarantined", "unsupported", "due")
        documents = {kind: n for kind, n in self.parsed["documents"].items() if kind not in settled}
        return any((*documents.values(), *self.parsed["records"].values(), self.parsed["renamed"]))


class Planner:
    """Computes plans in a child process. ``child``: the command to run.

    Methods must be called by one thread at a time.
    """

    def __init__(self, child: PythonChild) -> None:
        self._child = child
        self._process: BoundChild | None = None
        self._output: IO[bytes] | None = None
        self._plan: ShownPlan | None = None

    def begin(self) -> None:
        """Start computing a plan, unless a plan is being computed."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        self._output = TemporaryFile()  # noqa: SIM115 - closed by ``close``
        command, environment = self._child.command, self._child.environment
        self._process = BoundChild(command, environment, stdin=PIPE, stdout=self._output, stderr=STDOUT)
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)
        assert self._process.stdin
        with suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(b"\n")
        self._plan = ShownPlan(time.time())

    def latest(self) -> ShownPlan | None:
        """Return the plan that is being computed, or else the last one; None if none was requested yet."""
        plan, process, output = self._plan, self._process, self._output
        if plan is None or plan.text is not None or process is None or output is None:
            return plan
        if process.poll() is None:
            late = time.time() - plan.begun - PATIENCE
            if late > _ENDING:
                process.kill()
            elif late > 0:
                process.terminate()
            return plan
        text = os.pread(output.fileno(), LONGEST, 0).decode("utf-8", "replace")
        text = text.strip() or "The plan could not be made: `ingestor plan` printed nothing."
        parsed = None
        with suppress(ValueError, RecursionError):
            last = json.loads(text.splitlines()[-1])
            parsed = last if isinstance(last, dict) and "documents" in last else None
        self._plan = ShownPlan(plan.begun, time.time(), text, parsed)
        return self._plan

    def close(self) -> None:
        """End the process that computes a plan, if it still runs."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_ENDING)
            except TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._output is not None:
            self._output.close()
        self._process = self._output = None


def planner(config: Path) -> Planner:
    """Return a planner for a config file.

    Its process gets all environment variables, including secrets that the config refers to.
    """
    words = ("-c", _RUN, "plan", "--json", "--config", str(config))
    return Planner(python_child(*words, secrets=True, variables=_PLAIN))


PLAN = "/page/plan"  # changes nothing


def changes(daemon: DaemonView, situation: Situation, config: Config, planner: Planner) -> Mapping[str, Any]:
    """Return the values for the template of this page. Raises sqlite3.Error."""
    with journal_of(config) as journal:
        leaving = [] if config.prune else sources_not_in_config(config, journal)
        latest = history(journal, None, None, FEW)
    return {
        "now": situation.at,
        "sources": sources_now(daemon, situation),
        "collections": collections_now(daemon, situation),
        "leaving": leaving,
        "plan": planner.latest(),
        "config_text": config.origin.text,
        "history": latest,
    }


def actions(config: Callable[[], Config], planner: Planner) -> dict[str, Action]:
    """Return the function that handles each form of the pages, by the form's address.

    ``config``: returns the config in force.
    """

    def plan(form: Form) -> str:
        planner.begin()
        return ""

    def bind(do: Callable[[Config, Form], str]) -> Action:
        def act(form: Form) -> str:
            try:
                return do(config(), form)
            except BadRequest as error:
                raise RequestProblem.at(None, 409, str(error)) from error

        return act

    changing = (retry, apply, rollback, accept, pause, resume)
    return {PLAN: plan, **{f"/page/{do.__name__}": bind(do) for do in changing}}


def retry(config: Config, form: Form) -> str:
    """Retry documents that failed, as a form of the page requests.

    Its field ``document`` names one document, or is empty for all. If the form has the field ``reason``, the
    documents of one source that failed for one kind of reason are retried. Raises RequestProblem.
    """
    wanted, alike = form.get("document"), form.get("reason")
    if wanted is None and alike is None:
        raise RequestProblem.at("document", 422, "the form names no document")
    with journal_of(config) as journal:
        rows = None
        if alike is not None:
            try:
                source, kind = json.loads(alike)
            except (ValueError, TypeError, RecursionError):
                source = kind = None
            if not (isinstance(source, str) and isinstance(kind, str)):
                raise RequestProblem.at("reason", 422, "the form names no reason")
            rows = [row for row, reason in rows_of_failed(journal, source) if kind_of(reason) == kind]
        elif wanted:
            rows = [entry.row for entry in find_named(journal, wanted)]
        count = journal.retry(rows)
    return f"{quantity(count, 'document')} will be retried now" if count else "No documents to retry"


def apply(config: Config, form: Form) -> str:
    applied = approve(config)
    return f"Applied: {'; '.join(applied)}" if applied else "No change waits for approval"


def rollback(config: Config, form: Form) -> str:
    name = form.get("collection", "")
    if roll_back(config, name):
        return f"The last rollback of {name} is undone"
    return f"Rolled back {name}; the config still has the change: revert it, or apply it again"


def accept(config: Config, form: Form) -> str:
    name = form.get("source", "")
    accept_loss(config, name)
    return f"The loss in {name} is accepted: its documents are removed at the next pass"


def pause(config: Config, form: Form) -> str:
    (name,) = pause_sources(config, form.get("source", ""))
    return f"{name} is paused"


def resume(config: Config, form: Form) -> str:
    name = form.get("source", "")
    return f"{name} is resumed" if resume_sources(config, name) else f"{name} was not paused"
