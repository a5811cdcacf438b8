"""Options of the config with their defaults and limits, and the values of a checked config. Pure.

``yaml_tree`` turns the text into a tree with line numbers. ``check`` checks the tree against these models and
the plugins' options. ``file`` reads the file. A ``description`` here becomes the text of docs/config.md.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, model_validator

from ingestor.config.servers import Chroma, Embedded, Http, Search, Supervised
from ingestor.config.workers import THREADS, Workers
from ingestor.core.content_types import EXTENSIONS, PARSERS, TEXT_KINDS, is_text
from ingestor.core.entries import MOST
from ingestor.core.metadata_keys import KEYS, NEEDED, Profile
from ingestor.http_server.access import is_loopback
from ingestor.llm.options import Endpoint
from ingestor.model import CollectionName, SourceName, Value
from ingestor.ports import IngestorError
from ingestor.registry import Options, Plugin, require_match
from ingestor.units import Duration, Size

DEFAULT_STRATEGY = "changepoint"
DEFAULT_EMBEDDER = "sentence-transformers"


def _collection_name(name: str) -> str:
    """Return the name of a collection if Chroma 1.5.9 would accept the name; else raise ValueError.

    So a bad name is reported by the check of the config, and not by the first write.
    """
    if not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]", name):
        raise ValueError(
            "must be 3 to 512 characters of a-z A-Z 0-9 . _ - that start and end with a letter or digit"
        )
    if re.search(r"--(\d+|aside-\w+)$", name):
        raise ValueError("must not end in --2 or another number: ingestor names rebuilt collections so")
    if ".." in name or re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}", name):
        raise ValueError("must not contain two periods in a row, or look like an IP address")
    return name


def _enough_memory(size: int) -> int:
    if size < 256 * 10**6:
        raise ValueError("must be at least 256MB")
    return size


SourceNameText = Annotated[
    str, require_match(r"[A-Za-z0-9_.-]+", "must be letters, digits, '_', '.' and '-' only")
]
ScanEvery = Annotated[Duration, Field(gt=0, allow_inf_nan=False)]
MaxLoss = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class Above:
    """Limits of a config change: a change beyond either limit waits for approval. None means no limit."""

    chunks: int | None = None
    cost: float | None = None  # in the currency of ``price``


def _approval(value: object) -> Above:
    match = re.fullmatch(r"above\s+(\d+(?:\.\d+)?)(\s+chunks?)?", str(value).strip())
    if not match or (match[2] and "." in match[1]):
        raise ValueError(
            "must be a limit of chunks such as 'above 1000 chunks', or of cost such as 'above 2.50'"
        )
    return Above(chunks=int(match[1])) if match[2] else Above(cost=float(match[1]))


Approval = Annotated[Above, PlainValidator(_approval), PlainSerializer(str)]


class Log(Options):
    """The log of the daemon, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="lowest level to log"
    )
    format: Literal["text", "json"] = Field(
        default="text", description="lines for people, or one JSON object a line"
    )


class Cache(Options):
    """A cache of vectors, parsed documents and answers of language models. Safe to delete."""

    size: Size = Field(
        default=2 * 10**9, ge=0, description="size of the file; beyond it the oldest entries are removed"
    )


def _text_type(name: str) -> str:
    known = name in PARSERS or name in EXTENSIONS.values()
    if name not in TEXT_KINDS and not (known and is_text(name)):
        kinds = ", ".join(sorted(TEXT_KINDS))
        raise ValueError(
            f"must be a text parser ({kinds}) or a media type such as text/x-python, not {name!r}"
        )
    return TEXT_KINDS.get(name, name)


TextTypes = dict[Annotated[str, Field(min_length=1)], Annotated[str, AfterValidator(_text_type)]]


class Parsing(Options):
    """Options for recognising file formats, and limits of parsing.

    Documents beyond a limit are quarantined.
    """

    types: TextTypes = Field(
        default={},
        description="file name patterns and their parser, `{'*.txt': rst}`, or content type, such as "
        "`text/x-python`; the first match decides. A pattern with a slash matches whole "
        "paths. Not for binary formats",
    )
    memory: Annotated[Size, AfterValidator(_enough_memory)] = Field(
        default=2 * 10**9, description="memory limit of a process; at least 256MB"
    )
    seconds: Duration = Field(
        default=60.0,
        gt=0,
        le=86400,
        description="CPU time limit of a document. A parser that only waits ends after four times that; a"
        " parser that works gets more time on a busy machine",
    )
    processes: int = Field(
        default=2,
        ge=1,
        le=64,
        description="documents parsed at the same time; one more while slow ones are parsed",
    )


class Rechunk(Options):
    """Options for rebuilding a collection, if a changed config needs other chunks or vectors.

    `rechunk: in_place` alone means `rechunk: {mode: in_place}`.
    """

    mode: Literal["swap", "in_place"] = Field(
        default="swap",
        description="`swap`: build a second collection, which replaces the first when complete; "
        "`in_place`: change document by document. Another embedding model always swaps",
    )
    approve: Approval | None = Field(
        default=None,
        description="`above 1000 chunks`, or `above 2.50` (currency of `price`): larger changes wait for "
        "`ingestor apply`",
    )
    price: float = Field(
        default=0.0,
        ge=0,
        description="price of a million embedded tokens; the embedder's own `price` overrides it",
    )
    grace: Duration = Field(
        default=3600.0,
        description="how long the old collection is kept after a swap, for `ingestor rollback`",
    )

    @model_validator(mode="before")
    @classmethod
    def _mode_alone(cls, data: Any) -> Any:
        return {"mode": data} if isinstance(data, str) else data


class CollectionSettings(Options):
    """Options of one collection, which the config gives under the collection's name."""

    shards: int = Field(
        default=1,
        ge=1,
        le=MOST,
        description="number of [shards](scaling.md#shards), each a collection in Chroma; a change builds "
        "new shards beside the old ones",
    )


MetadataSetting = Literal["full", "lean"] | list[Annotated[str, Field(min_length=1)]]


class Settings(Options):
    """Options at the top level of the config file."""

    state: Path = Field(
        default=Path(".ingestor"), description="folder of the journal, the cache and the lock"
    )
    chroma: dict[str, Any] = Field(default={}, description="Chroma server or folder, in one of three forms")
    embedding: dict[str, Any] = Field(
        default={},
        description=f"`kind` (`{DEFAULT_EMBEDDER}` by default) and options of the embedder, for all "
        "collections",
    )
    chunking: dict[str, Any] = Field(
        default={}, description=f"`strategy` (`{DEFAULT_STRATEGY}` by default) and its options"
    )
    metadata: MetadataSetting | dict[str, MetadataSetting] = Field(
        default="full",
        description="[metadata keys](metadata.md#profiles) of records: `full`, `lean`, a list of keys, or"
        " a mapping from collection to one of these. A change rewrites metadata only",
    )
    collections: dict[str, CollectionSettings] = Field(
        default={}, description="options of single collections, by the name of the collection"
    )
    language_model: dict[str, Any] = Field(
        default={},
        description="language model for `ingestor evaluate`, which writes questions and judges answers",
    )
    cache: Cache = Field(default=Cache(), description="size of the cache of vectors, texts and answers")
    workers: Annotated[int, Field(ge=1, le=THREADS)] | dict[str, Any] | None = Field(
        default=None,
        description="documents prepared at the same time, or a mapping; default: four per core. Changes "
        "speed, not results",
    )
    scan_every: ScanEvery = Field(
        default=300.0,
        description="time between full listings of a source; they find changes that events missed",
    )
    max_loss: MaxLoss = Field(
        default=0.5,
        description="share of a source's documents that may vanish in a day without approval, see "
        "[below](#max_loss)",
    )
    max_records: int = Field(
        default=100_000,
        ge=1,
        description="maximum number of chunks of a document; a document with more is not indexed, but "
        "quarantined",
    )
    parsing: Parsing = Field(default=Parsing(), description="limits of the processes that parse documents")
    rechunk: Rechunk = Field(
        default=Rechunk(), description="how records are replaced after a change of chunking or embedder"
    )
    prune: bool = Field(
        default=False,
        description="remove documents of sources that left the config; otherwise they stay until "
        "`ingestor apply`",
    )
    log: Log = Field(default=Log(), description="level and format of the log")
    search: Search = Field(default=Search(), description="reranker for searches")
    http: dict[str, Any] | bool = Field(
        default=True, description="service port for searches, health checks and metrics; `false`: none"
    )
    sources: list[dict[str, Any]] = Field(
        min_length=1, description="list of [sources](#sources), the places where your documents live"
    )


FieldType = Literal["text", "number", "boolean", "list", "day"]
_REFUSED = ("#", "$", "chroma:")  # beginnings of keys that Chroma refuses or silently drops


def _own_key(key: str) -> str:
    if not key or key.startswith(_REFUSED):
        raise ValueError("must be a name that does not begin with '#', '$' or 'chroma:'")
    if key in KEYS | NEEDED:
        raise ValueError(f"is a key that ingestor sets in every record: choose another, such as 'my_{key}'")
    return key


def _own_value(value: object) -> object:
    """Convert a metadata value of the config to a value that Chroma can store.

    Dates become text, because Chroma's filters compare text.
    """
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return value
    if isinstance(value, str | bool) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError("must be text, a number, true, false or a list of texts")


OwnKey = Annotated[str, AfterValidator(_own_key)]
OwnValues = dict[OwnKey, Annotated[Any, AfterValidator(_own_value)]]


class SourceMetadata(Options):
    """Metadata keys that the user adds to documents.

    If a key has several values, the last of these counts: ``values``, the patterns of ``paths`` in their
    order, values of source and document, and front matter. A change of these options rewrites metadata only.
    """

    values: OwnValues = Field(
        default={}, description="keys of every document, `{team: library, public: true}`"
    )
    paths: dict[Annotated[str, Field(min_length=1, max_length=1000)], OwnValues] = Field(
        default={},
        description="gitignore patterns of paths, and the keys of documents that they match: "
        "`{'ref/**': {audience: developers}}`",
    )
    front_matter: dict[OwnKey, FieldType] = Field(
        default={},
        description="fields of Markdown's front matter to copy, and their types: `text`, `number`, `boolean`,"
        " `list` (of texts) or `day` (`2026-11-22` as the number 20261122)",
    )


class SourceSettings(Options):
    """Keys that every source has; all other keys are options of its connector."""

    name: SourceNameText = Field(
        description="unique name of letters, digits, `_`, `.` and `-`; documents stay when the name changes"
    )
    kind: str = Field(description="connector that reads the source: `folder`, `git`, `web`, …")
    collection: Annotated[str, AfterValidator(_collection_name)] = Field(
        description="Chroma collection; several sources may share one. 3 to 512 characters of `a-z A-Z "
        "0-9 . _ -`, first and last a letter or digit; no `..`, no IP address, no end like "
        "`docs--2`"
    )
    chunking: dict[str, Any] = Field(
        default={},
        description="chunking of the source; without `strategy`, these options change the top level's",
    )
    parsing: dict[str, dict[str, Any]] = Field(
        default={}, description="options of parsers by kind, and `types`, which precede the top level's"
    )
    archives: bool = Field(
        default=False,
        description="read files in archives (`.zip`, `.tar`, also compressed). Single compressed files "
        "(`.gz`, `.bz2`, `.xz`, `.zst`), messages in `.mbox` files and attachments are always"
        " read",
    )
    metadata: SourceMetadata = Field(
        default=SourceMetadata(),
        description="[your own metadata keys](metadata.md#keys-of-your-own), see below",
    )
    scan_every: ScanEvery | None = Field(default=None, description="overrides the key of the top level")
    max_loss: MaxLoss | None = Field(default=None, description="overrides the key of the top level")


@dataclass(frozen=True, slots=True)
class Choice:
    """A plugin that the config chooses, with its options after their check."""

    plugin: Plugin
    options: Options


Pairs = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class OwnMetadata:
    """The option ``metadata`` of a source after its check; see SourceMetadata for its parts."""

    values: Pairs = ()
    paths: tuple[tuple[str, Pairs], ...] = ()
    front_matter: tuple[tuple[str, FieldType], ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """Return all metadata keys that this option may add to documents."""
        pairs = (*self.values, *self.front_matter, *chain.from_iterable(pairs for _, pairs in self.paths))
        return frozenset(key for key, _ in pairs)


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """A source of the config after all checks.

    Values that the source does not set are those of the top level.
    """

    name: SourceName
    collection: CollectionName
    connector: Choice
    chunking: Choice
    parsing: tuple[Choice, ...]  # parsers whose options the source sets; others have their defaults
    scan_every: float  # seconds
    max_loss: float  # share of the source's documents, 0 to 1
    archives: bool = False
    metadata: Profile = "full"  # of its collection
    own: OwnMetadata = OwnMetadata()
    shards: int = 1  # of its collection
    types: tuple[tuple[str, str], ...] = ()  # file name patterns and content types, the top level's last


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in the config file: its line, the key, and a message."""

    line: int  # from 1; 0 means the file as a whole
    key: str  # as in sources[1].chunking.size; "" is the top level
    message: str

    def __str__(self) -> str:
        return f"{self.key}: {self.message}" if self.key else self.message


@dataclass(frozen=True, slots=True)
class Origin:
    """The config file and its text. Secrets appear in the text by the names of variables or files only."""

    file: Path = Path()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """A checked config. Every path is absolute."""

    state: Path
    chroma: Chroma
    embedding: Choice
    chunking: Choice
    sources: tuple[SourceConfig, ...]
    cache_size: int  # bytes
    workers: Workers
    log: Log
    parsing: Parsing
    max_records: int
    rechunk: Rechunk
    prune: bool
    http: Http | None = None  # the service port
    search: Search = field(default_factory=Search)
    language_model: Endpoint | None = None  # for evaluations
    warnings: tuple[Problem, ...] = ()
    origin: Origin = field(default=Origin(), compare=False)

    @property
    def collections(self) -> tuple[CollectionName, ...]:
        """Return the names of all collections that sources feed, each name once."""
        return tuple(dict.fromkeys(source.collection for source in self.sources))


def readers_ask_service(http: Http | None, chroma: Chroma) -> bool:
    """Return whether collections get an embedding function that calls the service port.

    Chroma's clients then need no model of their own. Otherwise their embedding function loads the model. The
    option ``readers`` decides; see Http.
    """
    if http is None or isinstance(chroma, Embedded):
        return False
    if http.readers != "auto":
        return http.readers == "service"
    here = isinstance(chroma, Supervised) and is_loopback(chroma.host)
    return here or http.public_url is not None or not is_loopback(http.host)


class ConfigError(IngestorError):
    """Error: the config can't be used. The message has a line for each problem."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__(describe(file, self.problems))


def describe(file: str, problems: Iterable[Problem]) -> str:
    """Format each problem as a line, such as ``config.yaml:12: sources[0].path: must be a folder``."""
    return "\n".join(f"{file}:{p.line}: {p}" if p.line else f"{file}: {p}" for p in problems)
