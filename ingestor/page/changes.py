"""``GET /page/changes``: what waits for a person; and what the buttons of the pages do.

They do what the commands ``retry``, ``apply``, ``accept``, ``pause``, ``resume`` and ``plan`` do.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from ingestor.app.approvals import approve
from ingestor.app.handover import gone_sources
from ingestor.app.queries import journal_of
from ingestor.config.models import Config
from ingestor.http_server.problems import RequestProblem
from ingestor.model import SourceName
from ingestor.page.overview import collections_now, sources_now
from ingestor.page.planning import Planner
from ingestor.page.site import Deed, Form, FormResult, local
from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import Situation
from ingestor.state.sources import SourceRows
from ingestor.state.withdrawals import Withdrawals
from ingestor.units import counted

HERE = "/page/changes"


def changes(daemon: DaemonView, found: Situation, config: Config, planner: Planner) -> Mapping[str, Any]:
    """Raises sqlite3.Error."""
    with journal_of(config) as journal:
        leaving = [] if config.prune else gone_sources(config, journal)
    return {
        "now": found.at,
        "sources": sources_now(daemon, found),
        "collections": collections_now(daemon, found),
        "leaving": leaving,
        "plan": planner.latest(),
    }


def deeds(config: Callable[[], Config], planner: Planner) -> dict[str, Deed]:
    """Return the actions of the forms, by address."""

    def retry(form: Form) -> FormResult:
        if (wanted := form.get("document")) is None:
            raise RequestProblem.at("document", 422, "the form names no document")
        with journal_of(config()) as journal:
            rows = [entry.row for entry in journal.named(wanted)] if wanted else None
            count = journal.retry(rows)
        told = f"{counted(count, 'document')} will be retried now" if count else "Nothing to retry"
        return FormResult(_back(form), told)

    def apply(form: Form) -> FormResult:
        said = approve(config())
        return FormResult(
            _back(form), f"Applied: {'; '.join(said)}" if said else "Nothing waits for approval"
        )

    def accept(form: Form) -> FormResult:
        name = _source(config(), form)
        with journal_of(config()) as journal:
            done = SourceRows(journal).accept(name) | Withdrawals(journal).accept(name)
        if not done:
            raise RequestProblem.at(
                "source", 409, f"source {name!r} is not held for a loss of documents any more"
            )
        return FormResult(
            _back(form), f"The loss in {name} is accepted: its documents are removed at the next pass"
        )

    def pause(form: Form) -> FormResult:
        name = _source(config(), form)
        with journal_of(config()) as journal:
            SourceRows(journal).pause(name, time.time())
        return FormResult(_back(form), f"{name} is paused")

    def resume(form: Form) -> FormResult:
        name = _source(config(), form)
        with journal_of(config()) as journal:
            done = SourceRows(journal).resume(name)
        return FormResult(_back(form), f"{name} goes on" if done else f"{name} was not paused")

    def plan(form: Form) -> FormResult:
        planner.begin()
        return FormResult(HERE)

    found = {"retry": retry, "apply": apply, "accept": accept, "pause": pause, "resume": resume, "plan": plan}
    return {f"/page/{name}": do for name, do in found.items()}


def _source(config: Config, form: Form) -> SourceName:
    """Raises RequestProblem."""
    wanted = form.get("source", "")
    if wanted not in [source.name for source in config.sources]:
        raise RequestProblem.at("source", 404, "the config names no such source any more")
    return SourceName(wanted)


def _back(form: Form) -> str:
    """The page that the form was on."""
    return local(form.get("back", HERE)).partition("?")[0]
