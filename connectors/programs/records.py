"""Records that another program prints, as documents: common code for Singer taps and Airbyte sources.

The program gets its settings as a file that only this user can read, in a folder that is removed at its end.
Secrets are in that file and in the environment, never among the arguments. The program gets no state of an
earlier run, so it lists everything. A version is a digest of the fields that the document shows: a change of
another field is no change of the document.
"""

import json
import os
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import Field, SecretStr

from ingestor.connectors.programs.child import Missing, ProgramFailed, Run
from ingestor.connectors.programs.record import StreamRecord, document
from ingestor.connectors.programs.scratch import Scratch
from ingestor.connectors.programs.spool import Spool
from ingestor.connectors.shared.template import Template
from ingestor.model import Blob, Item
from ingestor.ports import NeedsHuman, Transient
from ingestor.registry import tuning
from ingestor.units import Duration, Size

# Environment variables that programs need to start, find their files, and reach servers.
_ENVIRONMENT = ("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "LC_", "SSL_CERT_", "REQUESTS_CA_BUNDLE")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")

Command = Annotated[list[str], Field(min_length=1)]
Settings = Annotated[dict[str, Any], Field(default={}, description="settings of the program")]
Secrets = Annotated[
    dict[str, SecretStr],
    Field(
        default={},
        description="secret settings: `${VAR}` or `file:/path`; a dot leads into a mapping: "
        "`credentials.token`",
    ),
]
Environment = Annotated[
    dict[str, SecretStr],
    Field(default={}, description="environment variables besides the usual ones; they may be secrets"),
]
Folder = Annotated[
    Path | None,
    Field(default=None, description="working folder of the program; left out: that of `ingestor`"),
]
Streams = Annotated[list[str], Field(min_length=1, description="names of the streams to read")]
Key = Annotated[
    list[str],
    Field(default=[], description="fields that identify a record; left out: the program's own primary key"),
]
Text = Annotated[
    Template,
    Field(description="the document: text with fields in braces: `# {title}`, `{user.name}`"),
]
FileName = Annotated[
    str, Field(default="{key}.md", description="file name; its ending sets the format (`{key}` is the key)")
]
Uri = Annotated[
    Template | None,
    Field(default=None, description="address of the record for people: `https://example.org/{id}`"),
]
Shown = Annotated[list[str], Field(default=[], description="fields to copy into the metadata in Chroma")]
Timeout = Annotated[Duration, tuning(3600.0, gt=0, description="time limit of one run")]
MaxSize = Annotated[
    Size, Field(default=50 * 10**6, description="larger documents are reported and not indexed")
]


# Errors of reading messages that have another shape.
_NONSENSE = (AttributeError, TypeError, LookupError, ValueError, RecursionError)
MOST_RECORDS = 5_000_000  # of a listing
_MOST_FOUND = 10**8  # bytes of a program's catalog

_FOR_GOOD = (
    "unauthorized", "unauthorised", "forbidden", "authentication", "invalid credentials", "invalid token",
    "invalid api key", "permission denied", "access denied", "required property", "config validation",
    "no such option", "unrecognized arguments",
)  # fmt: skip


class RecordOptions(Protocol):
    """Options that `singer` and `airbyte` share."""

    command: list[str]
    settings: dict[str, Any]
    secrets: dict[str, SecretStr]
    environment: dict[str, SecretStr]
    folder: Path | None
    streams: list[str]
    key: list[str]
    text: str
    file_name: str
    uri: str | None
    metadata: list[str]
    timeout: float
    max_size: int


@dataclass(frozen=True, slots=True)
class Program:
    """The configured command with its settings in a file. ``folder``: for other input files."""

    options: RecordOptions
    folder: Path

    @property
    def config(self) -> str:
        return str(self.folder / "config.json")

    def file(self, name: str, value: Any) -> str:
        """Write an input file for the program; only this user can read it."""
        path = self.folder / name
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(value, file)
        return str(path)

    def lines(self, *arguments: str) -> Iterator[bytes]:
        """The program's output. Raises NeedsHuman if it is not installed, and the errors of Run.lines."""
        first, *others = (word.replace("{folder}", str(self.folder)) for word in self.options.command)
        words = [_found(first, self.options.folder), *others, *arguments]
        try:
            yield from self._run(words).lines()
        except Missing as error:
            raise NeedsHuman(f"{first} can't be run ({error}): correct `command` or `folder`") from error

    def found(self, *arguments: str) -> Iterator[bytes]:
        """As ``lines``, for a catalog. Raises ProgramFailed if that has no end."""
        size = 0
        for line in self.lines(*arguments):
            size += len(line) + 1
            if size > _MOST_FOUND:
                raise ProgramFailed(f"its catalog has more than {_MOST_FOUND:,} bytes")
            yield line

    def parsed(self, line: bytes) -> dict[str, Any]:
        """A message. Raises ProgramFailed for any other line, because it may be a broken record."""
        try:
            message = json.loads(line) if line.strip() else {}
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            excerpt = self._run([]).without_secrets(line[:10_000].decode("utf-8", "replace"))[:100]
            raise ProgramFailed(f"it printed a line that is not a whole message: {excerpt!r}")
        return message

    def trouble(self, said: str) -> Exception:
        """The error for a failure: NeedsHuman if its text names a lasting problem, such as a wrong login."""
        said = self.named(said)
        if any(words in said.lower() for words in _FOR_GOOD):
            return NeedsHuman(f"{said}; check `settings` and `secrets`")
        return Transient(said)

    def named(self, said: str) -> str:
        """The program's text, with its name and without secrets."""
        return f"{Path(self.options.command[0]).name}: {self._run([]).without_secrets(said)}"

    def _run(self, words: list[str]) -> Run:
        options = self.options
        added = {name: secret.get_secret_value() for name, secret in options.environment.items()}
        secrets = [secret.get_secret_value() for secret in options.secrets.values()]
        return Run(
            words,
            {**_usual(), **added},
            folder=str(options.folder) if options.folder else None,
            seconds=options.timeout,
            longest=6 * options.max_size + 10**6,  # JSON may take six bytes for one
            secrets=[*secrets, *added.values(), *(json.dumps(secret)[1:-1] for secret in secrets)],
        )


Read = Callable[[Program], Generator[StreamRecord, None, None]]


class Records:
    """Connector for a program. ``read`` yields all records of the configured streams.

    ``read`` raises NeedsHuman, or ProgramFailed with the program's last words.
    """

    def __init__(self, options: RecordOptions, read: Read) -> None:
        self._options, self._read = options, read
        self._kept = Spool(options.max_size)

    def scan(self) -> Iterator[Item]:
        """Lists after the program's end, because of several records with one key the last counts.

        Raises NeedsHuman or Transient.
        """
        scratch = Scratch()
        try:
            items = self._items(Program(self._options, scratch.path))
        finally:
            scratch.remove()
        self._kept.forget_others({item.version for item in items.values()})
        yield from items.values()

    def fetch(self, item: Item) -> Blob:
        """Raises Stale or BadDocument."""
        return self._kept.fetch(item)

    def _items(self, program: Program) -> dict[str, Item]:
        items: dict[str, Item] = {}
        program.file("config.json", with_secrets(self._options.settings, self._options.secrets))
        with closing(self._read(program)) as records:  # else a traceback would keep the program alive
            try:
                for count, record in enumerate(records, 1):
                    if count > MOST_RECORDS:
                        raise ProgramFailed(f"it printed more than {MOST_RECORDS:,} records")
                    self._add(items, record)
            except ProgramFailed as failed:
                raise program.trouble(str(failed)) from failed
            except _NONSENSE as error:
                said = f"its output is malformed ({type(error).__name__}: {str(error)[:200]})"
                raise program.trouble(said) from error
        return items

    def _add(self, items: dict[str, Item], record: StreamRecord) -> None:
        item = self._kept.keep(document(record, self._options))
        if self._options.key and items.get(item.key, item) != item:
            raise NeedsHuman(f"two different records have the key {item.key!r}: correct `key`")
        items[item.key] = item


def with_secrets(settings: Mapping[str, Any], secrets: Mapping[str, SecretStr]) -> dict[str, Any]:
    """The settings with the secrets filled in. Raises NeedsHuman."""
    merged: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    for path, secret in secrets.items():
        *outer, last = path.split(".")
        inner = merged
        for name in outer:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise NeedsHuman(f"`secrets` has {path}, but `settings` has no mapping {name}: correct one")
        inner[last] = secret.get_secret_value()
    return merged


def _found(program: str, folder: Path | None) -> str:
    """The program's path. Raises NeedsHuman, with how to install it."""
    here = (folder or Path()) / program if "/" in program else None
    found = shutil.which(here.absolute() if here else program)
    if found is None:
        name = Path(program).name
        package = f"airbyte-{name}" if name.startswith("source-") else name
        raise NeedsHuman(
            f"{program} is not there: install it in an environment of its own (python3 -m venv /opt/{name}; "
            f"/opt/{name}/bin/pip install {package}) and give its path in `command`"
        )
    return found


def _usual() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_ENVIRONMENT) or name.upper() in _PROXIES
    }
