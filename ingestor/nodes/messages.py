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
from ingestor.model import Blob
from ingestor.pipeline.prepare import Job, Prepared
from ingestor.ports import BadDocument, NeedsHuman, Transient
from ingestor.registry import Group, Plugin, UnknownKind, find, kinds

_EXPECTED = (Transient, BadDocument, NeedsHuman, Slow, Stopped)  # errors that are no defects of this program


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Request to parse, chunk and embed a document on another machine, a node of the Ray cluster.

    ``blob``, ``parsed``: the content of the document, either as bytes or as parsed text; the other is None.
    ``predecessor``: entry of a vanished document with the same content, whose records can be reused.
    ``keeps``: whether the daemon caches the parsed document.
    """

    job: Job
    blob: Blob | None = None
    parsed: Parsed | None = None
    predecessor: Entry | None = None
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """Report that a process has built its tools, and waits for permission to start its work.

    ``node_id``: Ray's id of the node. ``node``: name of the node for people.
    """

    node_id: str
    node: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Report that a process cannot build the tools of the daemon.

    The packages or models of the node differ from the daemon's. ``problem``: names the differences and a
    remedy.
    """

    node_id: str
    node: str
    problem: str


@dataclass(frozen=True, slots=True)
class WantedVectors:
    """Request of a process for the vectors of some texts; the process waits for them."""

    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class LogLine:
    """Message that a process on a node has logged.

    The daemon logs it. ``level``: as in the module logging.
    """

    level: int
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """Outcome of a task that succeeded. ``parsed``: the parsed document, if the task ``keeps`` it.

    ``seconds``: time that each stage took.
    """

    prepared: Prepared
    parsed: Parsed | None = None
    seconds: Sequence[tuple[str, float]] = ()
    lines: Sequence[LogLine] = ()


@dataclass(frozen=True, slots=True)
class FailedCall:
    """Outcome of a failed task, or of a failed call of an embedding process."""

    error: Exception
    lines: Sequence[LogLine] = ()


def failure_of(panic: BaseException, lines: Sequence[LogLine] = ()) -> FailedCall:
    """Build the message about an error.

    If the error is a defect of this program, its traceback is added as a note. An error that cannot be packed
    is replaced by an error of the nearest expected class, or by a RuntimeError, with the same text.
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
    """Pack a value as bytes. A plugin is packed as its name, and loaded from the packages of the node."""
    packed = BytesIO()
    _Packer(packed, 5).dump(value)
    return packed.getvalue()


def unpack(data: bytes) -> Any:
    """Unpack a message. Unpickling is safe here: only our own processes send messages."""
    return pickle.loads(data)  # noqa: S301


def find_plugin(group: Group, kind: str) -> Plugin:
    """Return the plugin of that group and kind, as installed in this process.

    Raises NeedsHuman if it is missing.
    """
    try:
        return find(group, kind)
    except (UnknownKind, ImportError) as error:
        raise NeedsHuman(
            f"has no usable plugin {kind!r} of the group {group} ({error}): install the same packages on "
            "every node"
        ) from None


def rebuild_error(kind: type[Exception], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> Exception:
    """Rebuild an error from its parts, without calling its constructor.

    Some constructors do not accept the arguments that the error has stored.
    """
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
