"""Documents from Python code. The code runs in a process of its own.

It may print, hang, crash, leak memory and change global state there. The process ends with the scan.
"""

import json
import pickle
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, Field, SecretStr

from ingestor.confinement.python_child import python_child
from ingestor.connectors.programs.child import Missing, ProgramFailed, Run
from ingestor.connectors.programs.loading_child import LoadRequest
from ingestor.connectors.programs.spool import Given, Spool
from ingestor.connectors.shared.typed import text
from ingestor.model import Blob, Item
from ingestor.ports import NeedsHuman, Transient
from ingestor.registry import tuning
from ingestor.units import Duration, Size

_CHILD = "ingestor.connectors.programs.loading_child"


def _ending(ending: str) -> str:
    if not ending.startswith(".") or "/" in ending:
        raise ValueError("must be a file name's ending such as .md")
    return ending


Arguments = Annotated[dict[str, Any], Field(default={}, description="arguments of the call")]
Secrets = Annotated[dict[str, SecretStr], Field(default={}, description="secret arguments")]
Load = Annotated[
    dict[str, Any],
    Field(default={}, description="arguments of `load_data`"),
]
Folder = Annotated[
    Path | None, Field(default=None, description="folder of the module, if it is not installed")
]
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
    AfterValidator(_ending),
    Field(default=".md", description="format of texts, as a file name's ending: `.md`, `.txt`, `.html`"),
]
Timeout = Annotated[Duration, tuning(3600.0, gt=0, description="time limit of a listing")]
MaxSize = Annotated[Size, Field(default=50 * 10**6, description="larger documents are reported, not indexed")]


class LoadingOptions(Protocol):
    """Options that `python`, `langchain` and `llamahub` share."""

    arguments: dict[str, Any]
    secrets: dict[str, SecretStr]
    folder: Path | None
    key: list[str]
    ending: str
    timeout: float
    max_size: int


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """``name``: ``module:name``; ``package``: its name for pip; ``load``: see loading_child.LoadRequest."""

    name: str
    package: str = ""
    load: dict[str, Any] = field(default_factory=dict)


class Loading:
    """Connector for code. Every scan looks it up again, because installed packages may change."""

    def __init__(self, settings: LoadingOptions, find: Callable[[], EntryPoint]) -> None:
        self._settings, self._find = settings, find
        self._kept = Spool(settings.max_size)

    def scan(self) -> Iterator[Item]:
        """Documents of one key are ``key``, ``key#2`` and so on. Raises NeedsHuman or Transient."""
        counts: dict[str, int] = {}
        versions: set[str] = set()
        for given in documents(self._settings, self._find()):
            item = self._kept.keep(given)
            counts[item.key] = count = counts.get(item.key, 0) + 1
            versions.add(item.version)
            yield replace(item, key=item.key if count == 1 else f"{item.key}#{count}")
        self._kept.forget_others(versions)

    def fetch(self, item: Item) -> Blob:
        """Raises Stale or BadDocument."""
        return self._kept.fetch(item)


def documents(settings: LoadingOptions, call: EntryPoint) -> Iterator[Given]:
    """All documents of the code. Raises NeedsHuman or Transient."""
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
    try:
        yield from _taken(run, pickle.dumps(path) + pickle.dumps(request), call)
    except (ProgramFailed, Missing) as error:
        raise Transient(f"{call.name}: {error}") from error


def _taken(run: Run, request: bytes, call: EntryPoint) -> Iterator[Given]:
    whole = False
    for line in run.lines(request):
        message = json.loads(line)
        if "human" in message:
            raise NeedsHuman(run.without_secrets(message["human"]))
        if "failed" in message:
            raise Transient(run.without_secrets(message["failed"]))
        whole = "end" in message
        if not whole:
            yield _given(message)
    if not whole:  # the code called os._exit(0)
        raise Transient(f"{call.name} ended before the end of its documents, will be retried")


def _given(message: dict[str, Any]) -> Given:
    content, data = message["text"], message["data"]
    return Given(
        key=text(message["key"]),
        data=b64decode(data) if content is None else content.encode("utf-8", "replace"),
        name=text(message["name"]),
        uri=text(message["uri"]),
        metadata=tuple((text(name), value) for name, value in sorted(message["metadata"].items())),
    )


def named(call: str) -> str:
    """Raises ValueError unless it is ``package.module:name``."""
    module, _, name = call.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise ValueError("must be as in package.module:name")
    return call
