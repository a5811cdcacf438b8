"""Check of a whole config: turns a parsed file into a ``Config``, or into a list of all its problems."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from os.path import isfile, normpath
from pathlib import Path
from typing import Protocol, runtime_checkable

from pydantic import SecretStr

from ingestor.config.models import (
    DEFAULT_EMBEDDER,
    DEFAULT_STRATEGY,
    Choice,
    CollectionSettings,
    Config,
    OwnMetadata,
    Problem,
    Settings,
    SourceConfig,
    SourceSettings,
    TextTypes,
)
from ingestor.config.options import Check, Mapped
from ingestor.config.servers import Chroma, Embedded, Http, RemoteChroma, Supervised
from ingestor.config.workers import THREADS, Workers
from ingestor.config.yaml_tree import ConfigTree, Where
from ingestor.core.entries import shard_names
from ingestor.http_server.access import LEAST_TOKEN, is_guessable, is_loopback
from ingestor.llm.options import Endpoint
from ingestor.model import CollectionName, SourceName
from ingestor.registry import Options, find, kinds

_REMOTE = {"host", "ssl", "tenant", "database", "headers", "quotas"}  # options of a server that runs already
_MODEL = "language_model"
_STATE_FILES = ("journal.sqlite3", "cache.sqlite3", "lock", "live.json", "chroma.log")
_CHROMA_FILES = ("chroma.sqlite3", "ingestor.lock", "00000000-0000-4000-8000-000000000000/data_level0.bin")


@runtime_checkable
class Filtered(Protocol):
    """Protocol: options of a connector that reads files beneath a folder."""

    path: Path

    def takes(self, path: Path) -> bool: ...


@runtime_checkable
class Listening(Protocol):
    """Protocol: options of a connector that listens on a port."""

    def listens(self) -> tuple[str, int]: ...


@runtime_checkable
class Paid(Protocol):
    """Protocol: options of an embedder that may cost money."""

    price: float  # of a million tokens


class _Types(Options):
    """The key ``types`` of a source's ``parsing``."""

    types: TextTypes


def check(tree: ConfigTree, folder: Path) -> Config | tuple[Problem, ...]:
    """Return the config of a parsed file; if checks fail, return all problems instead, sorted by line.

    ``folder``: the folder that relative paths start from.
    """
    result = Check(tree, folder, list(tree.problems))
    config = None
    if isinstance(tree.data, dict):
        config = _config(result, tree.data)
    elif not result.problems:
        empty = "is empty; `ingestor init` writes a commented config"
        result.fault((), empty if tree.data is None else "must be a mapping of keys to values")
    if config is None or result.problems:
        return tuple(sorted(set(result.problems), key=lambda problem: (problem.line, str(problem))))
    return config


def _config(check: Check, data: Mapped) -> Config | None:
    settings = check.model(Settings, data, ())
    chroma = _chroma(check, _section(data, "chroma"))
    embedding = check.choice(
        "embedders", _section(data, "embedding"), ("embedding",), "kind", default=DEFAULT_EMBEDDER
    )
    base = {"strategy": DEFAULT_STRATEGY, **_section(data, "chunking")}
    chunking = check.choice("chunkers", base, ("chunking",), "strategy")
    language_model = check.model(Endpoint, _section(data, _MODEL), (_MODEL,)) if data.get(_MODEL) else None
    sources = {
        index: source
        for index, given in _source_data(data)
        if (source := _source(check, given, ("sources", index), settings, chunking=chunking, base=base))
    }
    _names(check, data)
    _check_fed(check, data, "metadata")
    _check_fed(check, data, "collections")
    _shards(check, settings, sources)
    warnings = list(_overlaps(check, sources))
    workers = _workers(check, settings)
    if not (settings and chroma and embedding and chunking and workers):
        return None
    _require_folder(check, ("state",), settings.state)
    if isinstance(chroma, Supervised | Embedded):
        _require_folder(check, ("chroma", "path"), chroma.path)
    for index, source in sources.items():
        _own_files(check, ("sources", index, "path"), source, settings.state, chroma)
    price = embedding.options.price if isinstance(embedding.options, Paid) else 0.0
    taken = _ports(check, sources, chroma)
    http = _http(check, data)
    if http is not None and http.port in taken:
        clash = f"{http.port} is also the port of {taken[http.port]}: set `http: {{port: ...}}` to another"
        if "http" in data:
            check.fault(("http", "port"), clash)
        else:  # the config is older than the service port
            warnings, http = [*warnings, Problem(0, "http", f"no service port: {clash}")], None
    return Config(
        state=settings.state,
        chroma=chroma,
        embedding=embedding,
        chunking=chunking,
        sources=tuple(sources.values()),
        cache_size=settings.cache.size,
        workers=workers,
        log=settings.log,
        parsing=settings.parsing,
        max_records=settings.max_records,
        rechunk=settings.rechunk.model_copy(update={"price": price or settings.rechunk.price}),
        prune=settings.prune,
        http=http,
        search=settings.search,
        language_model=language_model,
        warnings=tuple(warnings),
    )


def _require_folder(check: Check, at: Where, path: Path) -> None:
    """Report a path of the config that must be a folder, but is a file or lies below a file."""
    file = next((each for each in (path, *path.parents) if isfile(each)), None)  # noqa: PTH113 - no error for a closed folder
    if file is not None:
        check.fault(at, f"{file} is a file, and must be a folder: move it away, or choose another path")


def _section(data: Mapped, key: str) -> Mapped:
    section = data.get(key)
    return section if isinstance(section, dict) else {}


def _source_data(data: Mapped) -> Iterator[tuple[int, Mapped]]:
    sources = data.get("sources")
    for index, source in enumerate(sources if isinstance(sources, list) else ()):
        if isinstance(source, dict):
            yield index, source


def _chroma(check: Check, data: Mapped) -> Chroma | None:
    at = ("chroma",)
    if not data.keys() & {"path", "hosts"} and data.keys() & _REMOTE:
        return check.model(RemoteChroma, data, at)
    supervised = check.model(Supervised, data, at)
    if supervised:
        given: list[tuple[Where, SecretStr | None]] = [(("token",), supervised.token)]
        given += [(("tokens", number, "token"), each.token) for number, each in enumerate(supervised.tokens)]
        for steps, token in given:
            if token is not None:
                _check_token(check, token.get_secret_value(), supervised.host, (*at, *steps))
    return check.model(Embedded, data, at) if supervised and supervised.embedded else supervised


def _http(check: Check, data: Mapped) -> Http | None:
    given, at = data.get("http", True), ("http",)
    if given is False:
        return None
    http = check.model(Http, _section(data, "http"), at)
    if http and http.token is not None:
        _check_token(check, http.token.get_secret_value(), http.host, (*at, "token"))
    if http and http.token is None and not is_loopback(http.host):
        check.fault(
            (*at, "host"),
            f"{http.host} can be reached from other machines: set `token`, or leave `host` out and put a "
            "proxy in front",
        )
    return http


def _workers(check: Check, settings: Settings | None) -> Workers | None:
    """Return the checked ``workers``, or None if a check fails.

    The default is four threads for each core, because most of the threads wait for disks and servers.
    """
    given, at = settings.workers if settings else 1, ("workers",)
    if given is None:
        return Workers(count=min(THREADS, 4 * (os.cpu_count() or 4)))
    if isinstance(given, int):
        return Workers(count=given)
    for where in _keys_with_variables(check, given.get("runtime_env"), (*at, "runtime_env")):
        check.fault(where, "must not be filled from a variable: everyone who sees Ray's dashboard can see it")
    return check.model(Workers, given, at)


def _keys_with_variables(check: Check, value: object, at: Where) -> Iterator[Where]:
    """Yield the paths, at or below ``at``, of values that the file writes with environment variables."""
    inner: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    elif check.tree.is_filled(at):
        yield at
    for name, each in inner:
        yield from _keys_with_variables(check, each, (*at, name))


def _check_token(check: Check, token: str, host: str, at: Where) -> None:
    if not token:
        check.fault(at, "must not be empty: leave it out to admit everybody who reaches the port")
    elif not re.fullmatch(r"[!-~]+", token):
        check.fault(at, "must be ASCII letters, digits and punctuation: Chroma's clients can send no others")
    elif is_guessable(token, host):
        check.fault(at, f"{host} can be reached from other machines: set {LEAST_TOKEN} characters or more")


def _source(
    check: Check, data: Mapped, at: Where, defaults: Settings | None, *, chunking: Choice | None, base: Mapped
) -> SourceConfig | None:
    """Return a checked source, or None if a check fails.

    Where the source sets no value of its own, it has the value of the top level. ``defaults``: options of the
    top level. ``chunking``: the top level's chunking after its check. ``base``: the same chunking as the file
    writes it, in which a source may replace single options.
    """
    common = SourceSettings.model_fields.keys() - _of_connector(data)
    settings = check.model(SourceSettings, {k: v for k, v in data.items() if k in common}, at)
    connector = None
    if isinstance(data.get("kind"), str):
        connector = check.choice("connectors", data, at, "kind", own=common)
    chosen = _check_chunking(check, _section(data, "chunking"), (*at, "chunking"), chunking, base)
    parsing = parsers_of(check, _section(data, "parsing"), (*at, "parsing"))
    types = types_of(check, _section(data, "parsing"), (*at, "parsing"))
    if not (settings and connector and chosen and defaults):
        return None
    profile = defaults.metadata
    if isinstance(profile, dict):
        profile = profile.get(settings.collection, "full")
    return SourceConfig(
        name=SourceName(settings.name),
        collection=CollectionName(settings.collection),
        connector=connector,
        chunking=chosen,
        parsing=parsing,
        scan_every=defaults.scan_every if settings.scan_every is None else settings.scan_every,
        max_loss=defaults.max_loss if settings.max_loss is None else settings.max_loss,
        archives=settings.archives,
        metadata=tuple(sorted(set(profile))) if isinstance(profile, list) else profile,
        own=OwnMetadata(
            tuple(settings.metadata.values.items()),
            tuple((pattern, tuple(pairs.items())) for pattern, pairs in settings.metadata.paths.items()),
            tuple(settings.metadata.front_matter.items()),
        ),
        shards=defaults.collections.get(settings.collection, CollectionSettings()).shards,
        types=(*types, *defaults.parsing.types.items()),
    )


def _of_connector(data: Mapped) -> set[str]:
    """Return the set of the key ``metadata`` if it is an option of the source's connector, else an empty set.

    Some connectors have an option ``metadata`` of their own: a list, such as the names of columns. The
    mapping ``metadata`` is an option of every source.
    """
    kind = data.get("kind")
    if not isinstance(data.get("metadata"), list) or kind not in kinds("connectors"):
        return set()
    return {"metadata"} & find("connectors", str(kind)).options.model_fields.keys()


def _check_chunking(
    check: Check, own: Mapped, at: Where, chunking: Choice | None, base: Mapped
) -> Choice | None:
    """Return the chunking of a source, or None if a check fails.

    A source without ``chunking`` has the chunking of the top level. If its ``chunking`` names no strategy,
    its options replace those of the top level. ``own``: the source's ``chunking`` as the file writes it.
    ``chunking``, ``base``: see ``_source``.
    """
    if "strategy" in own:
        return check.choice("chunkers", own, at, "strategy")
    if own and chunking:
        return check.choice("chunkers", {**base, **own}, at, "strategy")
    return chunking


def parsers_of(check: Check, data: Mapped, at: Where) -> tuple[Choice, ...]:
    """Return the parsers for which the source's ``parsing`` sets options, with the checked options.

    ``data``: the ``parsing`` of the source.
    """
    choices = []
    for kind, options in data.items():
        if kind == "types":
            continue
        plugin = check.plugin("parsers", kind, (*at, kind))
        if plugin and isinstance(options, dict):
            choices.append(check.options(plugin, options, (*at, kind)))
    return tuple(choice for choice in choices if choice)


def types_of(check: Check, data: Mapped, at: Where) -> tuple[tuple[str, str], ...]:
    """Return the pairs of file name pattern and content type in ``parsing.types``.

    ``data``: the ``parsing`` of a source.
    """
    own = check.model(_Types, {"types": data["types"]}, at) if "types" in data else None
    return tuple(own.types.items()) if own else ()


def _names(check: Check, data: Mapped) -> None:
    """Report each source that has the same name as another source."""
    first: dict[object, int] = {}
    for index, source in _source_data(data):
        name = source.get("name")
        if isinstance(name, str) and first.setdefault(name, index) != index:
            check.fault(("sources", index, "name"), f"{name!r} is also the name of sources[{first[name]}]")


def _check_fed(check: Check, data: Mapped, section: str) -> None:
    """Report a collection in ``section`` that no source feeds."""
    fed = sorted({str(source.get("collection")) for _, source in _source_data(data)})
    for name in _section(data, section):
        if name not in fed:
            check.fault((section, name), f"no source feeds this collection; there are: {', '.join(fed)}")


def _shards(check: Check, settings: Settings | None, sources: Mapping[int, SourceConfig]) -> None:
    """Report a source whose collection has the same name as a shard of another collection."""
    divided = settings.collections.items() if settings else ()
    taken = {part: name for name, own in divided for part in shard_names(name, own.shards) if part != name}
    for index, source in sources.items():
        if source.collection in taken:
            clash = f"{source.collection} is a shard of {taken[source.collection]}: choose another name"
            check.fault(("sources", index, "collection"), clash)


def _overlaps(check: Check, sources: Mapping[int, SourceConfig]) -> Iterator[Problem]:
    """Yield a warning for each two sources of one collection whose folders overlap.

    Report a source as a mistake if another source lists the same documents for the same collection.
    """
    for (i, one), (j, other) in combinations(sources.items(), 2):
        if one.collection != other.collection:
            continue
        if one.connector == other.connector:
            same = f"lists the same documents for the same collection as sources[{i}] ({one.name})"
            check.fault(("sources", j), f"{same}: remove one of them")
            continue
        paths = [getattr(source.connector.options, "path", None) for source in (one, other)]
        a, b = (Path(normpath(path)) if isinstance(path, Path) else None for path in paths)
        if a and b and (a.is_relative_to(b) or b.is_relative_to(a)):
            yield check.tree.problem(
                ("sources", j, "path"),
                f"overlaps with sources[{i}] ({one.name}), which feeds the same collection: "
                "files in both are indexed twice",
            )


def _own_files(check: Check, at: Where, source: SourceConfig, state: Path, chroma: Chroma) -> None:
    """Report a source whose folder holds files of ingestor or Chroma.

    Such files change with every sync, so they would be read and written forever.
    """
    options = source.connector.options
    own: dict[str, tuple[Path, Sequence[str]]] = {"state": (state, _STATE_FILES)}
    if not isinstance(chroma, RemoteChroma):
        own["chroma.path"] = (chroma.path, _CHROMA_FILES)
    for key, (folder, names) in own.items():
        if isinstance(options, Filtered) and any(options.takes(folder / name) for name in names):
            inside = folder.relative_to(options.path).as_posix()
            exclude = "" if inside == "." else f"exclude it (exclude: ['/{inside}/']) or "
            written = f"holds {folder} ({key}), whose files would become documents and never stop changing"
            check.fault(at, f"{written}: {exclude}move it out of source {source.name!r}")


def _ports(check: Check, sources: Mapping[int, SourceConfig], chroma: Chroma) -> dict[int, str]:
    """Report a port that two servers of the config would listen on. Return the owner of each port.

    The owner is the key of its section, such as ``chroma`` or ``sources[0]``. Sources with equal options
    share one server, since they feed several collections with the same documents.
    """
    taken: dict[int, tuple[str, Choice | None]] = {}
    if isinstance(chroma, Supervised) and not chroma.embedded:
        taken[chroma.port] = "chroma", None
    for index, source in sources.items():
        options = source.connector.options
        if isinstance(options, Listening):
            _, port = options.listens()
            who, other = taken.setdefault(port, (f"sources[{index}]", source.connector))
            if other != source.connector:
                check.fault(("sources", index, "port"), f"{port} is also the port of {who}: choose another")
    return {port: who for port, (who, _) in taken.items()}
