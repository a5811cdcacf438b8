"""Whatever Python code can list: a function that gives documents, a LangChain loader, a LlamaIndex reader.

``call`` names it as ``module:name``. What it gives is iterated: mappings with ``key`` and ``text`` (or
``data``, bytes), and ``uri`` and ``metadata`` if there are any; or objects with ``metadata`` and either
``page_content`` or ``get_content``. Version: a digest of all that is known of a document. As there is no
telling beforehand what changed, every scan runs the code to its end, and what it gave is kept on disk until
the next. A scan that raises removes nothing; code that leaves documents out without raising loses them, up
to ``max_loss``.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Annotated, Any
from weakref import finalize

from pydantic import AfterValidator, Field, SecretStr

from ingestor.model import Blob, Item, Scalar
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient
from ingestor.registry import Options, Plugin
from ingestor.units import Size

_LOADING = ("lazy_load", "load", "load_data")  # of LangChain loaders and LlamaIndex readers


def _named(call: str) -> str:
    module, _, name = call.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise ValueError("must be as in package.module:function")
    return call


def _ending(ending: str) -> str:
    if not ending.startswith(".") or "/" in ending:
        raise ValueError("must be a file name's ending such as .md")
    return ending


class PythonOptions(Options):
    call: Annotated[str, AfterValidator(_named)] = Field(
        description="what gives the documents, as in `package.module:function`; a class is a loader or reader"
    )
    arguments: dict[str, Any] = Field(default={}, description="what it is called with")
    secrets: dict[str, SecretStr] = Field(
        default={}, description="the same, for secrets: `${VAR}` or `file:/path`"
    )
    load: dict[str, Any] = Field(
        default={}, description="of a reader: what its `load_data` is called with; of a loader likewise"
    )
    folder: Path | None = Field(default=None, description="where the module lies, unless it is installed")
    key: list[str] = Field(
        default=["source", "file_path", "url", "id"],
        min_length=1,
        description="metadata that tells documents apart, for those without a `key`: the first that is there",
    )
    ending: Annotated[str, AfterValidator(_ending)] = Field(
        default=".md", description="what texts are: `.md`, `.txt`, `.html`, as a file's name would end"
    )
    max_size: Size = Field(default=50 * 10**6, description="larger documents are reported and not indexed")


@dataclass(frozen=True, slots=True)
class Given:
    """A document as the code gave it. ``name``: for its type."""

    key: str
    data: bytes
    name: str
    uri: str
    metadata: tuple[tuple[str, Scalar], ...]

    @property
    def version(self) -> str:
        facts = json.dumps([self.name, self.uri, self.metadata]).encode()
        return blake2b(facts + b"\0" + self.data, digest_size=16).hexdigest()


class Python:
    """Connector for documents that code gives."""

    def __init__(self, options: PythonOptions) -> None:
        self._options = options

    @cached_property
    def _kept(self) -> Path:
        """What the last scan gave, a file each; it goes with this object, or with the program."""
        folder = Path(mkdtemp(prefix="ingestor-python-"))
        finalize(self, rmtree, folder, ignore_errors=True)
        return folder

    def scan(self) -> Iterator[Item]:
        """Raises NeedsHuman when the code can't be called, Transient or the code's own when it fails."""
        counts: dict[str, int] = {}
        kept: set[str] = set()
        for number, document in enumerate(self._documents(), 1):
            given = self._given(document, number)
            counts[given.key] = count = counts.get(given.key, 0) + 1
            key = given.key if count == 1 else f"{given.key}#{count}"
            kept.add(given.version)
            self._keep(given)
            yield Item(key, given.version, given.uri, len(given.data), None, given.metadata)
        for file in self._kept.iterdir():
            if file.name.partition(" ")[0] not in kept:
                file.unlink(missing_ok=True)

    def fetch(self, item: Item) -> Blob:
        """Gives what was listed. Raises Stale if that was not since the program began, or not of late."""
        limit = self._options.max_size
        if item.size is not None and item.size > limit:
            raise BadDocument(f"{item.uri} has {item.size:,} bytes; max_size is {limit:,}: raise it")
        try:
            data = self._file(item.version).read_bytes()
            name = self._file(item.version, " name").read_text("utf-8")
        except FileNotFoundError as error:
            raise Stale(f"{item.uri} is to be listed again first") from error
        return Blob(data, name)

    def _keep(self, given: Given) -> None:
        file = self._file(given.version)
        if not file.exists() and len(given.data) <= self._options.max_size:
            self._file(given.version, " name").write_text(given.name, "utf-8")
            file.write_bytes(given.data)

    def _file(self, version: str, what: str = "") -> Path:
        return self._kept / (version + what)

    def _documents(self) -> Iterator[Any]:
        try:
            yield from self._called()
        except (NeedsHuman, Transient):
            raise
        except Exception as error:  # the code may raise anything
            raise Transient(f"{self._options.call} failed: {type(error).__name__}: {error}") from error

    def _called(self) -> Iterable[Any]:
        options, callable_ = self._options, self._found()
        secrets = {name: secret.get_secret_value() for name, secret in options.secrets.items()}
        try:
            made = callable_(**options.arguments, **secrets)
            loading = next((name for name in _LOADING if hasattr(made, name)), None)
            documents = made if loading is None else getattr(made, loading)(**options.load)
        except TypeError as error:
            message = f"{options.call} can't be called so ({error}): check `arguments`, `secrets` and `load`"
            raise NeedsHuman(message) from error
        if not isinstance(documents, Iterable) or isinstance(documents, str | bytes | Mapping):
            raise NeedsHuman(f"{options.call} gives {type(documents).__name__}, no list of documents")
        return documents

    def _found(self) -> Any:
        folder, (module, _, name) = self._options.folder, self._options.call.partition(":")
        if folder is not None and str(folder) not in sys.path:
            sys.path.append(str(folder))
        try:
            found: Any = import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise NeedsHuman(
                f"{self._options.call} is not there ({error}): install it, or correct `call`"
            ) from error
        return found

    def _given(self, document: Any, number: int) -> Given:
        facts = document if isinstance(document, Mapping) else _facts(document)
        metadata = dict(facts.get("metadata") or {})
        content = facts.get("data", facts.get("text"))
        known = (facts.get("key"), *map(metadata.get, self._options.key))
        key = next((value for value in known if value not in (None, "")), None)
        if not isinstance(content, str | bytes):
            raise NeedsHuman(f"document {number} of {self._options.call} has neither `text` nor `data`")
        if key is None:
            wanted = ", ".join(self._options.key)
            raise NeedsHuman(
                f"document {number} of {self._options.call} has no key and none of {wanted}: set `key`"
            )
        key = _text(str(key))
        name = key.rpartition("/")[2] if isinstance(content, bytes) else f"text{self._options.ending}"
        data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
        uri = _text(str(facts.get("uri") or key))
        shown = sorted(
            (_text(str(name)), _scalar(value)) for name, value in metadata.items() if _is_scalar(value)
        )
        return Given(key, data, name, uri, tuple(shown))


def _facts(document: Any) -> dict[str, Any]:
    """Of a LangChain or LlamaIndex document. The latter's own id is often a random one: it is no key."""
    text = getattr(document, "page_content", None)
    if text is None and hasattr(document, "get_content"):
        text = document.get_content()
    return {"text": text, "metadata": getattr(document, "metadata", None)}


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float | bool)


def _scalar(value: Any) -> Scalar:
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """Lone surrogates are no text."""
    return text.encode("utf-8", "replace").decode()


PLUGIN = Plugin(kind="python", version=1, options=PythonOptions, build=Python)
