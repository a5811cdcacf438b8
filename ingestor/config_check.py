"""A parsed tree -> the config, or everything that is wrong with it."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from os.path import normpath
from pathlib import Path

from ingestor.config import (
    DEFAULT_EMBEDDER,
    DEFAULT_STRATEGY,
    Choice,
    Chroma,
    Config,
    Embedded,
    Problem,
    Remote,
    Settings,
    SourceConfig,
    SourceSettings,
    Supervised,
)
from ingestor.config_options import Check, Mapped
from ingestor.config_yaml import Tree, Where
from ingestor.model import CollectionName, SourceName


def check(tree: Tree, folder: Path) -> Config | tuple[Problem, ...]:
    """The config that the tree means, or its problems by line. ``folder``: where relative paths begin."""
    found = Check(tree, folder, list(tree.problems))
    config = _config(found, _given(tree.data)) if isinstance(tree.data, dict) else None
    if tree.data is None and not found.problems:
        found.fault((), "is empty; `ingestor init` writes a commented config to begin with")
    elif config is None and not found.problems:
        found.fault((), "must be a mapping of keys to values")
    if config is None or found.problems:
        return tuple(sorted(set(found.problems), key=lambda p: (p.line, p.key, p.message)))
    return config


def _config(found: Check, data: Mapped) -> Config | None:
    settings = found.model(Settings, data, ())
    chroma = _chroma(found, _section(data, "chroma"))
    embedding = found.choice(
        "embedders", _section(data, "embedding"), ("embedding",), "kind", DEFAULT_EMBEDDER
    )
    chunking = found.choice(
        "chunkers", _section(data, "chunking"), ("chunking",), "strategy", DEFAULT_STRATEGY
    )
    if settings is None:
        return None
    sources = [_source(found, index, source, data, settings) for index, source in enumerate(settings.sources)]
    complete = tuple(source for source in sources if source is not None)
    _check_names(found, complete)
    if chroma is None or embedding is None or chunking is None or len(complete) < len(sources):
        return None
    return Config(
        state=settings.state,
        chroma=chroma,
        embedding=embedding,
        chunking=chunking,
        sources=complete,
        cache_size=settings.cache.size,
        workers=settings.workers,
        log=settings.log,
        warnings=tuple(_overlaps(found, complete)),
    )


def _section(data: Mapped, key: str) -> Mapped:
    """What is no mapping is reported by Settings."""
    value = data.get(key)
    return _given(value) if isinstance(value, dict) else {}


def _given(data: Mapped) -> Mapped:
    """A key without a value is as good as absent."""
    return {key: value for key, value in data.items() if value is not None}


def _chroma(found: Check, data: Mapped) -> Chroma | None:
    form: type[Chroma] = Supervised
    if data.get("embedded") is True:
        form = Embedded
    elif "path" not in data and ("host" in data or "token" in data or "ssl" in data):
        form = Remote
    return found.model(form, data, ("chroma",))


def _source(
    found: Check, index: int, source: Mapped, data: Mapped, settings: Settings
) -> SourceConfig | None:
    at = ("sources", index)
    given = _given(source)
    own = SourceSettings.model_fields.keys()
    common = found.model(SourceSettings, {key: given[key] for key in given if key in own}, at)
    connector = found.choice("connectors", given, at, "kind", own=own) if "kind" in given else None
    chunking = _chunking(found, _section(data, "chunking"), _section(given, "chunking"), at)
    parsing = _parsing(found, _section(given, "parsing"), (*at, "parsing"))
    if common is None or connector is None or chunking is None:
        return None
    return SourceConfig(
        name=SourceName(common.name),
        collection=CollectionName(common.collection),
        connector=connector,
        chunking=chunking,
        parsing=parsing,
        scan_every=settings.scan_every if common.scan_every is None else common.scan_every,
        max_loss=settings.max_loss if common.max_loss is None else common.max_loss,
    )


def _chunking(found: Check, top: Mapped, own: Mapped, at: Where) -> Choice | None:
    """The source's own strategy; without one, the top level's with the options given here changed."""
    merged = own if "strategy" in own else {**top, **own}
    place = (*at, "chunking") if own else ("chunking",)
    return found.choice("chunkers", merged, place, "strategy", DEFAULT_STRATEGY)


def _parsing(found: Check, data: Mapped, at: Where) -> tuple[Choice, ...]:
    choices = []
    for kind, options in data.items():
        plugin = found.plugin("parsers", kind, (*at, kind))
        if plugin is not None and isinstance(options, dict):
            choices.append(found.options(plugin, _given(options), (*at, kind)))
    return tuple(choice for choice in choices if choice is not None)


def _check_names(found: Check, sources: Sequence[SourceConfig]) -> None:
    for (first, one), (second, other) in combinations(enumerate(sources), 2):
        if one.name == other.name:
            found.fault(("sources", second, "name"), f"is the name of sources[{first}], too: {one.name!r}")
        elif (one.connector, one.collection) == (other.connector, other.collection):
            found.fault(
                ("sources", second), f"feeds the same documents to the same collection as {one.name!r}"
            )


def _overlaps(found: Check, sources: Sequence[SourceConfig]) -> Iterator[Problem]:
    """A folder within another's, in one collection: its documents are there twice."""
    for (first, one), (second, other) in combinations(enumerate(sources), 2):
        paths = [getattr(source.connector.options, "path", None) for source in (one, other)]
        if one.collection != other.collection or not all(isinstance(path, Path) for path in paths):
            continue
        inner, outer = sorted((normpath(str(path)) for path in paths), key=len, reverse=True)
        if inner != outer and inner.startswith(outer.rstrip("/") + "/"):
            yield found.tree.problem(
                ("sources", second, "path"),
                f"{inner} lies within {outer} of the other source (sources[{first}]): collection "
                f"{one.collection!r} holds its documents twice",
            )
