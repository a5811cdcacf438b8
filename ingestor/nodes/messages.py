"""Messages between the daemon and processes on nodes: plain values, packed as bytes.

The daemon sends a task. The process reports its start, requests vectors as often as it needs some, and sends
the outcome. Errors keep their class and their text.
"""

import pickle
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, get_args

from ingestor.core.document_json import Parsed
from ingestor.core.entries import Entry
from ingestor.core.errors import Slow, Stopped
from ingestor.engine.workers import as_exception
from ingestor.model import Blob, SourceName
from ingestor.pipeline.prepare import Job, Prepared
from ingestor.ports import BadDocument, NeedsHuman, Transient
from ingestor.registry import Group, Plugin, UnknownKind, find, kinds

_EXPECTED = (Transient, BadDocument, NeedsHuman, Slow, Stopped)  # errors that are no defects of this program


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A document to prepare on a node.

    ``blob``, ``parsed``: the content, as bytes or as parsed text; the other one is None. ``predecessor``:
    entry of a vanished document with equal content, whose records are reused.
    """

    job: Job
    blob: Blob | None = None
    parsed: Parsed | None = None
    predecessor: Entry | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """Report that a process has built its tools and can start its work.

    ``node_id``: Ray's id of the node. ``node``: name of the node for people.
    """

    node_id: str
    node: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Report that a process cannot build the daemon's tools, because packages or models of its node differ.

    ``problem``: the differences and a remedy.
    """

    node_id: str
    node: str
    problem: str


@dataclass(frozen=True, slots=True)
class WantedVectors:
    """Request of a process for the vectors of texts, for which it waits."""

    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class LogLine:
    """Line that a process on a node would log, which the daemon logs instead. ``level``: as in logging."""

    level: int
    message: str


@dataclass(frozen=True, slots=True)
class Keep:
    """A parsed document that the daemon stores in its cache.

    ``stamp``: version of the item and the parser.
    """

    source: SourceName
    key: str
    stamp: str
    parsed: Parsed


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """Outcome of a task that succeeded. ``keep``: parsed documents to cache. ``seconds``: time by stage."""

    prepared: Prepared
    keep: Sequence[Keep] = ()
    seconds: Sequence[tuple[str, float]] = ()
    lines: Sequence[LogLine] = ()


@dataclass(frozen=True, slots=True)
class FailedCall:
    """Outcome of a task, or of a call of an embedding process, that failed."""

    error: Exception
    lines: Sequence[LogLine] = ()


def failure_of(panic: BaseException, lines: Sequence[LogLine] = ()) -> FailedCall:
    """Return the message for an error. A defect of this program carries its traceback as a note.

    An error that cannot be packed is replaced by one of its expected class, or RuntimeError, with its text.
    """
    error = as_exception(panic)
    try:
        unpack(pack(error))
    except Exception:  # noqa: BLE001 - some errors cannot travel
        kind = next((known for known in _EXPECTED if isinstance(error, known)), RuntimeError)
        error = kind(f"{type(error).__name__}: {error}" if kind is RuntimeError else str(error))
    if not isinstance(error, _EXPECTED):
        error.add_note(f"in a process on a node:\n{''.join(traceback.format_exception(panic))}")
    return FailedCall(error, lines)


def pack(value: object) -> bytes:
    """Pack a value. A plugin is packed as its name: nodes load it from their own packages."""
    packed = BytesIO()
    _Packer(packed, 5).dump(value)
    return packed.getvalue()


def unpack(data: bytes) -> Any:
    """Unpack a message. Only our own processes send them, and Ray unpickles their messages, too."""
    return pickle.loads(data)  # noqa: S301


def find_plugin(group: Group, kind: str) -> Plugin:
    """Return the plugin of a group by its kind, as loaded in this process.

    Raises NeedsHuman if it is not installed.
    """
    try:
        return find(group, kind)
    except (UnknownKind, ImportError) as error:
        raise NeedsHuman(
            f"has no usable plugin {kind!r} of the group {group} ({error}): install the same packages on "
            "every node"
        ) from None


def rebuild_error(kind: type[Exception], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> Exception:
    """Rebuild an error from its parts: some constructors do not accept the error's own text."""
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(attributes)
    return error


class _Packer(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:
        if isinstance(value, Exception):
            return rebuild_error, (type(value), value.args, value.__dict__)
        if isinstance(value, Plugin):
            kind, groups = value.kind, get_args(Group)
            group = next(each for each in groups if kind in kinds(each) and find(each, kind) is value)
            return find_plugin, (group, kind)
        return NotImplemented
