"""Connectors ``python``, ``langchain`` and ``llamahub``: documents that Python code returns.

``call`` of a ``python`` source names code as ``module:name``. The code returns mappings with ``key`` and
``text`` (or ``data``, bytes), and optionally ``uri`` and ``metadata``. Or it returns objects with
``metadata`` and either ``page_content`` or ``get_content``. ``loader`` of ``langchain`` and ``reader`` of
``llamahub`` name a class of an installed package.

A version is a digest of all fields. Every scan runs the code to its end, in a process of its own. There the
code may print, hang, crash, leak memory and change global state. Its documents are stored on disk until the
next complete scan. If the code raises an error, no document is removed. Otherwise missing documents are
removed, up to ``max_loss``.
"""

import importlib
import json
import os
import pickle
import re
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated, Any
from weakref import finalize

from pydantic import AfterValidator, Field, SecretStr

from ingestor.confinement.python_child import python_child
from ingestor.connectors.programs.loading_child import LoadRequest
from ingestor.connectors.shared.child import Missing, ProgramFailed, Run
from ingestor.connectors.shared.patterns import check_size
from ingestor.connectors.shared.typed import text
from ingestor.model import Blob, Item, Scalar
from ingestor.ports import NeedsHuman, Stale, Transient
from ingestor.registry import Options, Plugin, require_match, tuning
from ingestor.units import Duration, Size


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """A document that the code returned. ``name``: a file name, whose ending decides the format."""

    key: str
    data: bytes
    name: str
    uri: str
    metadata: tuple[tuple[str, Scalar], ...] = ()

    @property
    def version(self) -> str:
        """Return a digest of all fields that records in Chroma depend on."""
        facts = json.dumps([self.name, self.uri, self.metadata]).encode()
        return blake2b(facts + b"\0" + self.data, digest_size=16).hexdigest()


class _Contents:
    """Contents of the documents of one scan, by version.

    They are stored in a temporary file without a name.
    """

    def __init__(self) -> None:
        self._spans: dict[str, tuple[str, int, int]] = {}  # by version: name, begin and end in the file
        self._end = 0

    @cached_property
    def _file(self) -> IO[bytes]:
        file = TemporaryFile(buffering=0)  # noqa: SIM115 - it lives as long as this object
        finalize(self, file.close)
        return file

    def add(self, document: LoadedDocument) -> None:
        """Store a document's content. Raises OSError if the disk is full."""
        version, data = document.version, document.data
        if version not in self._spans:
            begin, rest = self._end, memoryview(data)
            while rest:
                written = os.pwrite(self._file.fileno(), rest, begin + len(data) - len(rest))
                rest = rest[written:]
            self._end += len(data)
            self._spans[version] = document.name.replace("\0", ""), begin, self._end

    def blob(self, version: str) -> Blob | None:
        """Return the stored content; None if no document of that version was added."""
        if version not in self._spans:
            return None
        name, begin, end = self._spans[version]
        return Blob(os.pread(self._file.fileno(), end - begin, begin) if end > begin else b"", name)


_CHILD = "ingestor.connectors.programs.loading_child"
_COMMUNITY = "langchain_community.document_loaders"
_READERS, _CORE = "llama_index.readers", "llama_index.core"
_CATALOG = "command_line/mappings.json"  # of llama-index-core: class -> module, installed or not


def _check_call(call: str) -> str:
    module, _, name = call.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise ValueError("must have the form package.module:name")
    return call


def _loader(name: str) -> str:
    return _check_call(name if ":" in name else f"{_COMMUNITY}:{name}")


def _reader(name: str) -> str:
    _check_call(name if ":" in name else f"{_CORE}:{name}")
    return name


Load = Annotated[dict[str, Any], Field(default={}, description="arguments of `load_data`")]
Key = Annotated[
    list[str],
    Field(
        default=["source", "file_path", "url", "id"],
        min_length=1,
        description="metadata keys that identify a document without a `key`; the first present one is used "
        "(`id_`: a LlamaIndex document's id)",
    ),
]
Ending = Annotated[
    str,
    require_match(r"\.[^/]*", "must be a file name's ending such as .md"),
    Field(default=".md", description="format of texts, as a file name's ending: `.md`, `.txt`, `.html`"),
]


class LoadingOptions(Options):
    arguments: dict[str, Any] = Field(default={}, description="arguments of the call")
    secrets: dict[str, SecretStr] = Field(default={}, description="secret arguments")
    folder: Path | None = Field(default=None, description="folder of the module, if it is not installed")
    key: Key
    ending: Ending
    timeout: Annotated[Duration, tuning(3600.0, gt=0, description="time limit of a listing")]
    max_size: Size = Field(default=50 * 10**6, description="larger documents are reported, not indexed")


class PythonOptions(LoadingOptions):
    call: Annotated[str, AfterValidator(_check_call)] = Field(
        description="`package.module:name` of a function that returns documents, or of a loader class"
    )
    load: Load


class LangchainOptions(LoadingOptions):
    loader: Annotated[str, AfterValidator(_loader)] = Field(
        description="class of the loader: `CSVLoader`, or `package.module:Class` if it is not in "
        "`langchain_community`"
    )
    key: Key = Field(default=["source", "url", "file_path", "id"])
    ending: Ending = Field(default=".txt")


class LlamahubOptions(LoadingOptions):
    reader: Annotated[str, AfterValidator(_reader)] = Field(
        description="class of the reader: `NotionPageReader`, or `package.module:Class`"
    )
    load: Load
    key: Key = Field(default=["file_path", "url", "source", "page_id", "id"])
    ending: Ending = Field(default=".txt")


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """Name of the Python code to call, with what is needed to call it."""

    name: str  # ``module:name``
    package: str = ""  # name of its package for pip, if known
    load: dict[str, Any] = field(default_factory=dict)  # arguments of ``load_data``


class Loading:
    """Connector for Python code that returns documents.

    ``find``: returns the code to call. Each scan calls ``find`` again, because installed packages may change.
    """

    def __init__(self, settings: LoadingOptions, find: Callable[[], EntryPoint]) -> None:
        self._settings, self._find = settings, find
        self._complete, self._latest = _Contents(), _Contents()  # of the last complete scan, and of the last

    def scan(self) -> Iterator[Item]:
        """Run the code, and yield its documents. Raises NeedsHuman or Transient.

        If several documents have the same key, they get the keys ``key``, ``key#2`` and so on.
        """
        self._latest = latest = _Contents()
        counts: dict[str, int] = {}
        for document in documents(self._settings, self._find()):
            counts[document.key] = count = counts.get(document.key, 0) + 1
            key = document.key if count == 1 else f"{document.key}#{count}"
            try:
                if len(document.data) <= self._settings.max_size:  # a larger one is reported by its fetch
                    latest.add(document)
            except OSError as error:
                raise Transient(
                    f"{document.uri} can't be stored on disk, will be retried: {error.strerror}"
                ) from error
            yield Item(key, document.version, document.uri, len(document.data), None, document.metadata)
        self._complete = latest

    def fetch(self, item: Item) -> Blob:
        """Return the content of a document, as stored by the last scan.

        Raises BadDocument if it is too large, and Stale if it is not stored any more.
        """
        check_size(item, item.size, self._settings.max_size)
        blob = self._latest.blob(item.version) or self._complete.blob(item.version)
        if blob is None:
            raise Stale(f"{item.uri} is not stored any more: the next scan lists it again")
        return blob


def documents(settings: LoadingOptions, call: EntryPoint) -> Iterator[LoadedDocument]:
    """Run the code in a process of its own, and yield its documents. Raises NeedsHuman or Transient."""
    secrets = {name: secret.get_secret_value() for name, secret in settings.secrets.items()}
    arguments = {**settings.arguments, **secrets}
    request = LoadRequest(call.name, arguments, call.load, tuple(settings.key), settings.ending, call.package)
    path = [*filter(None, sys.path), *([str(settings.folder)] if settings.folder else [])]
    child = python_child("-m", _CHILD, secrets=True)
    run = Run(
        child.command,
        child.environment,
        seconds=settings.timeout,
        longest=6 * settings.max_size + 10**6,  # JSON may take six bytes for a byte
        secrets=list(secrets.values()),
    )
    complete = False
    try:
        for line in run.lines(pickle.dumps(path) + pickle.dumps(request)):
            message = json.loads(line)
            if "human" in message:
                raise NeedsHuman(run.without_secrets(message["human"]))
            if "failed" in message:
                raise Transient(run.without_secrets(message["failed"]))
            complete = "end" in message
            if not complete:
                yield _document_of(message)
    except (ProgramFailed, Missing) as error:
        raise Transient(f"{call.name}: {error}") from error
    if not complete:  # the code called os._exit(0)
        raise Transient(f"{call.name} ended before it had returned all documents, will be retried")


def _document_of(message: dict[str, Any]) -> LoadedDocument:
    """Convert a message of the child process to a document (see ``loading_child.facts_of``)."""
    content, data = message["text"], message["data"]
    return LoadedDocument(
        key=text(message["key"]),
        data=b64decode(data) if content is None else content.encode("utf-8", "replace"),
        name=text(message["name"]),
        uri=text(message["uri"]),
        metadata=tuple((text(name), value) for name, value in sorted(message["metadata"].items())),
    )


def build_python(options: PythonOptions) -> Loading:
    return Loading(options, lambda: EntryPoint(options.call, load=options.load))


def build_langchain(options: LangchainOptions) -> Loading:
    """Connector for any LangChain document loader, by the name of its class."""
    package = options.loader.partition(":")[0].partition(".")[0].replace("_", "-")
    return Loading(options, lambda: EntryPoint(options.loader, package))


def build_llamahub(options: LlamahubOptions) -> Loading:
    """Connector for any LlamaIndex reader, by the name of its class."""
    return Loading(options, lambda: _reader_of(options))


def _reader_of(options: LlamahubOptions) -> EntryPoint:
    """Find the class of a LlamaIndex reader. Raises NeedsHuman if no installed module defines that class."""
    module, colon, name = options.reader.rpartition(":")
    importlib.invalidate_caches()
    module = module if colon else next(_modules_of(name), "")
    if not module:
        pip = f"{sys.executable} -m pip install llama-index-readers-…"
        raise NeedsHuman(
            f"no installed reader of LlamaIndex is called {name}: install the package that LlamaHub names "
            f"for it ({pip}), or correct `reader`"
        )
    return EntryPoint(f"{module}:{name}", _package(module), options.load)


def _modules_of(name: str) -> Iterator[str]:
    """Yield modules of LlamaIndex that may define the class ``name``, the most likely first.

    The files of the modules are searched for the name instead of imported, because some imports take seconds.
    """
    word = re.compile(rf"\b{name}\b")
    for module, file in _find_readers():
        if file.is_file() and word.search(file.read_text("utf-8", "replace")):
            yield module
    for core in _folders(_CORE):
        if (core / _CATALOG).is_file():
            known = json.loads((core / _CATALOG).read_bytes()).get(name, "")
            yield from [known] if known.startswith(f"{_READERS}.") else []


def _find_readers() -> Iterator[tuple[str, Path]]:
    """Yield the modules of installed readers, each with the file that has the names of its classes."""
    for folder in _folders(_READERS):
        for file in sorted(folder.glob("*/__init__.py")):
            yield f"{_READERS}.{file.parent.name}", file
    for core in _folders(_CORE):
        yield f"{_CORE}.readers", core / "readers/__init__.py"
        yield _CORE, core / "__init__.py"


def _folders(package: str) -> list[Path]:
    """Return the folders of an installed package; empty if the package is not installed."""
    try:
        spec = find_spec(package)
    except ModuleNotFoundError:  # the package around it is missing, too
        return []
    return [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]


def _package(module: str) -> str:
    """Return the package to install with pip for a module of readers."""
    parts = module.split(".")
    return "-".join(parts[: 3 if module.startswith("llama_index.") else 1]).replace("_", "-")


PYTHON = Plugin(kind="python", version=1, options=PythonOptions, build=build_python)
LANGCHAIN = Plugin(kind="langchain", version=1, options=LangchainOptions, build=build_langchain)
LLAMAHUB = Plugin(kind="llamahub", version=1, options=LlamahubOptions, build=build_llamahub)
