"""Stores the report of each collection's last evaluation, from which the daemon's page shows the result.

Each report is a file in the state folder. It holds the figures of strategies, but no text of a document.
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
    """A stored report. ``at``: POSIX seconds of the evaluation. ``report``: fields of ``evaluate --json``."""

    at: float
    report: Mapping[str, Any]


def write(state: Path, report: Mapping[str, Any], at: float) -> None:
    """Replace the stored report of the report's collection, atomically. Raises OSError."""
    name = f"{EVALUATION}{text_digest(str(report['collection']))[:16]}.json"
    less = {**report, "questions": {**report["questions"], "refused": []}}
    write_own(state / name, json.dumps({"format": _FORMAT, "at": at, "report": less}))


def read(state: Path) -> dict[str, StoredReport]:
    """Return the stored reports by collection. Skip files that are damaged or of another format."""
    reports = dict[str, StoredReport]()
    for file in state.glob(f"{EVALUATION}*.json"):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            stored = json.loads(read_own(file))
            if stored["format"] == _FORMAT:
                name = str(stored["report"]["collection"])
                reports[name] = StoredReport(float(stored["at"]), stored["report"])
    return reports
