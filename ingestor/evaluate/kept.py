"""Stores the last evaluation of each collection in a small file of the state folder, for the service's page.

The file has texts of the report, but no text of a document.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingestor.core.fingerprint import text_digest
from ingestor.state.files import EVALUATION, read_own, write_own

_FORMAT = 2  # version of the file; others are ignored


@dataclass(frozen=True, slots=True)
class KeptReport:
    """A stored report. ``at``: POSIX seconds. ``report``: the fields of ``evaluate --json``."""

    at: float
    report: Mapping[str, Any]


def write(state: Path, report: Mapping[str, Any], at: float) -> None:
    """Replace a collection's report, atomically. Raises OSError."""
    name = f"{EVALUATION}{text_digest(str(report['collection']))[:16]}.json"
    less = {**report, "questions": {**report["questions"], "refused": []}}
    write_own(state / name, json.dumps({"format": _FORMAT, "at": at, "report": less}))


def read(state: Path) -> dict[str, KeptReport]:
    """Return the reports by collection; skip damaged files."""
    return {str(one.report["collection"]): one for one in _read(state)}


def _read(state: Path) -> Iterator[KeptReport]:
    for file in state.glob(f"{EVALUATION}*.json"):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            stored = json.loads(read_own(file))
            if stored["format"] == _FORMAT:
                yield KeptReport(float(stored["at"]), stored["report"])
