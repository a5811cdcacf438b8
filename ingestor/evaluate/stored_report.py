"""Stores the report of each collection's last evaluation, which the daemon's page shows.

Each report is a file in the state folder. It contains scores of strategies, but no text of a document.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingestor.core.fingerprint import text_digest
from ingestor.state.files import EVALUATION, read_own, write_own

_FORMAT = 2  # version of the file's format; files of other versions are ignored


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The stored report of an evaluation. ``at``: time of the evaluation in POSIX seconds.

    ``report``: fields of ``evaluate --json``.
    """

    at: float
    report: Mapping[str, Any]


def write(state: Path, report: Mapping[str, Any], at: float) -> None:
    """Store a report in place of its collection's previous report. A crash leaves one of them complete.

    ``state``: the state folder. ``at``: POSIX seconds. Raises OSError.
    """
    name = f"{EVALUATION}{text_digest(str(report['collection']))[:16]}.json"
    less = {**report, "questions": {**report["questions"], "refused": []}}
    write_own(state / name, json.dumps({"format": _FORMAT, "at": at, "report": less}))


def read(state: Path) -> dict[str, StoredReport]:
    """Return the stored reports, by collection. Damaged files, and files of another format, are skipped."""
    reports = dict[str, StoredReport]()
    for file in state.glob(f"{EVALUATION}*.json"):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            stored = json.loads(read_own(file))
            if stored["format"] == _FORMAT:
                name = str(stored["report"]["collection"])
                reports[name] = StoredReport(float(stored["at"]), stored["report"])
    return reports
