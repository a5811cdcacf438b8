"""Messages between the daemon and processes on nodes: plain values, packed as bytes.

A task goes out. The process reports its start, asks for vectors as often as it needs some, and answers with
the outcome. Errors keep their class and their text. The daemon builds only plain values and arrays
of numbers from the bytes of a process, which has read hostile documents.
"""

import pickle
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from io import BytesIO
from typing import Any, get_args

import numpy as np

from ingestor.core.document_json import Parsed
from ingestor.core.entries import Entry
from ingestor.core.errors import Slow, Stopped
from ingestor.engine.workers import as_exception
from ingestor.model import Blob, SourceName
from ingestor.pipeline.prepare import Job, Prepared
from ingestor.ports import BadDocument, NeedsHuman, Transient
from ingestor.registry import Group, Plugin, UnknownKind, find, kinds

_VALUES = (
    "ingestor.core.",
    "ingestor.model",
    "ingestor.ports",
    "ingestor.pipeline.prepare",
    "ingestor.nodes.messages",
)
_NUMBERS = ("<f2", "<f4", "<f8", "<i4", "<i8", "|u1", "|b1")  # of arrays in messages
_EXPECTED = (Transient, BadDocument, NeedsHuman, Slow, Stopped)  # errors whose traceback helps nobody


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A document to prepare.

    ``blob``, ``parsed``: one of them is its content; the process reads nothing else. ``predecessor``:
    vanished document whose records the document takes over.
    """

    job: Job
    blob: Blob | None = None
    parsed: Parsed | None = None
    predecessor: Entry | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """Report: a process has made its tools, and starts its work. ``node_id``: Ray's id.

    ``node``: name for people.
    """

    node_id: str
    node: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Error: a process cannot make the same tools as the daemon. ``problem``: the reason."""

    node_id: str
    node: str
    problem: str


@dataclass(frozen=True, slots=True)
class WantedVectors:
    """Texts whose vectors the process waits for."""

    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class LogLine:
    """Log line of a process on a node, for the daemon to log."""

    level: int
    message: str


@dataclass(frozen=True, slots=True)
class Keep:
    """A parsed document for the cache, under the stamp of its item's state."""

    source: SourceName
    key: str
    stamp: str
    parsed: Parsed


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """Outcome of a task. ``seconds``: by stage."""

    prepared: Prepared
    keep: Sequence[Keep] = ()
    seconds: Sequence[tuple[str, float]] = ()
    lines: Sequence[LogLine] = ()


@dataclass(frozen=True, slots=True)
class FailedCall:
    """An error as parts that any error has: some errors cannot be built from their own text."""

    kind: type[Exception]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]
    trace: str
    lines: Sequence[LogLine] = ()

    def error(self, where: str = "") -> Exception:
        """Rebuild the error. A defect carries the traceback of the other process as a note."""
        rebuilt = self.kind.__new__(self.kind, *self.arguments)
        rebuilt.args = self.arguments
        rebuilt.__dict__.update(self.attributes)
        if not isinstance(rebuilt, _EXPECTED):
            rebuilt.add_note(f"in a process on {where or 'a node'}:\n{self.trace}")
        return rebuilt


def failed_call(panic: BaseException, lines: Sequence[LogLine] = ()) -> FailedCall:
    """Return an error as a message. An error that cannot be packed keeps its known class and its text."""
    error, trace = as_exception(panic), "".join(traceback.format_exception(panic))
    call = FailedCall(type(error), error.args, dict(error.__dict__), trace, lines)
    try:
        unpack_answer(pack(call)).error()
    except Exception:  # noqa: BLE001 - some errors cannot travel
        kind = next((known for known in _EXPECTED if isinstance(error, known)), RuntimeError)
        text = f"{type(error).__name__}: {error}" if kind is RuntimeError else str(error)
        return FailedCall(kind, (text,), {}, trace, lines)
    return call


def pack(value: object) -> bytes:
    """Pack a value. A plugin goes as its name: nodes find it in their own packages."""
    packed = BytesIO()
    _Packer(packed, 5).dump(value)
    return packed.getvalue()


def unpack(data: bytes) -> Any:
    """Unpack a message of the daemon, in a process on a node."""
    return pickle.loads(data)  # noqa: S301


def unpack_answer(data: bytes) -> Any:
    """Unpack a message of a process on a node. Raises Transient if the bytes hold no message."""
    try:
        return _Answers(BytesIO(data)).load()
    except Exception as error:
        raise Transient(
            f"a node sent no answer that can be read ({type(error).__name__}: {error})"
        ) from error


def array_of(numbers: str, shape: tuple[int, ...], data: bytes) -> Any:
    """Build an array, or a number if it has no shape. Raises ValueError if it holds anything but numbers.

    numpy's own pickles hold types with fields and flags, which may turn bytes into pointers.
    """
    if numbers not in _NUMBERS:
        raise ValueError(f"an array of {numbers}")
    return np.frombuffer(bytearray(data), numbers).reshape(shape)[()]


def installed_plugin(group: Group, kind: str) -> Plugin:
    """Find the plugin of that name where this is called. Raises NeedsHuman if there is none."""
    try:
        return find(group, kind)
    except (UnknownKind, ImportError) as error:
        raise NeedsHuman(
            f"has no usable plugin {kind!r} of the group {group} ({error}): install the same packages on "
            "every node"
        ) from None


class _Packer(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:
        if isinstance(value, np.ndarray | np.generic):
            return array_of, (value.dtype.str, value.shape, value.tobytes())
        if isinstance(value, Plugin):
            kind, groups = value.kind, get_args(Group)
            group = next(each for each in groups if kind in kinds(each) and find(each, kind) is value)
            return installed_plugin, (group, kind)
        return NotImplemented


class _Answers(pickle.Unpickler):
    """Finds values and errors of the protocol, and no function but ``array_of``.

    The values are dataclasses where they are defined: to build them runs nothing of theirs.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module == "builtins" or module.startswith(_VALUES)) and "." not in name:
            kind = super().find_class(module, name)
            if kind is array_of:
                return kind
            value = is_dataclass(kind) and kind.__module__ == module
            if value or (isinstance(kind, type) and issubclass(kind, Exception)):
                return kind
        raise pickle.UnpicklingError(f"{module}.{name} is no part of an answer")
