"""The last result of each ``evaluate --check``: a small file in the state folder, for the daemon's metrics.

A check is known by its collection and the name of its file of questions.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ingestor.core.fingerprint import text_digest
from ingestor.state.file_permissions import read_own, write_own

PREFIX = "check-"  # of the files' names


@dataclass(frozen=True, slots=True)
class CheckResult:
    """``recall`` and ``fell``: from 0 to 1; ``at``: POSIX seconds."""

    collection: str
    questions: str
    recall: float
    fell: float
    passed: bool
    at: float


def write(state: Path, result: CheckResult) -> None:
    """In place of an earlier result of the same check, atomically. Raises OSError."""
    name = f"{PREFIX}{text_digest(json.dumps([result.collection, result.questions]))[:16]}.json"
    write_own(state / name, json.dumps(asdict(result)))


def read(state: Path) -> list[CheckResult]:
    """Return the results of all checks, skipping damaged files."""
    return sorted(_read(state), key=lambda each: (each.collection, each.questions))


def _read(state: Path) -> Iterator[CheckResult]:
    for file in state.glob(f"{PREFIX}*.json"):
        with suppress(OSError, ValueError, TypeError, KeyError):
            said = json.loads(read_own(file))
            yield CheckResult(
                str(said["collection"]), str(said["questions"]), float(said["recall"]), float(said["fell"]),
                bool(said["passed"]), float(said["at"]),
            )  # fmt: skip
