"""The recipes of a collection's documents, as values that the journal keeps as JSON. Pure.

A collection stays in step by its old recipes while the new recipes wait for approval or are being built. This
works after a restart too, when the config on disk has only the new recipes. Secrets and tuning options come
from today's config instead.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from ingestor.config.models import Choice, Config, SourceConfig
from ingestor.core.entries import Choices
from ingestor.core.fingerprint import complete, options_of_speed, recipe_options
from ingestor.core.metadata_keys import Profile
from ingestor.model import CollectionName, Fingerprint, SourceName
from ingestor.registry import Group, UnknownKind, find, kinds

# Choices have "detection", "embedding" with its "recipe", by name "sources" with "chunking", "parsing" and
# "types", if there are any; "metadata" where the profile is not "full", and "shards" where there are several.


class NotReproducible(Exception):
    """A stored recipe cannot be reproduced: its plugin is gone, or has another version."""


def choices_of(
    config: Config, collection: CollectionName, embedder: Fingerprint, detection: Fingerprint
) -> Choices:
    """Return today's choices. ``embedder``: the recipe of the embedder; ``detection``: detect.rules()."""
    sources = [source for source in config.sources if source.collection == collection]
    profile = next((source.metadata for source in sources), "full")
    shards = next((source.shards for source in sources), 1)
    return {
        "detection": detection,
        "embedding": {**_to_store(config.embedding), "recipe": embedder},
        **({"metadata": profile if profile == "lean" else [*profile]} if profile != "full" else {}),
        **({"shards": shards} if shards > 1 else {}),
        "sources": {
            source.name: {
                "chunking": _to_store(source.chunking),
                "parsing": {choice.plugin.kind: _to_store(choice) for choice in parsers_of(source)},
                **({"types": [list(pair) for pair in source.types]} if source.types else {}),
            }
            for source in sources
        },
    }


def parsers_of(source: SourceConfig) -> list[Choice]:
    """Return every installed parser, with the options that the source sets or its own defaults."""
    chosen = {choice.plugin.kind: choice for choice in source.parsing}
    plugins = [find("parsers", kind) for kind in kinds("parsers") if kind not in chosen]
    every = chosen | {plugin.kind: Choice(plugin, plugin.options()) for plugin in plugins}
    return [every[kind] for kind in kinds("parsers")]


def model_prices(config: Config, collection: CollectionName) -> dict[SourceName, float]:
    """Return by source the price of a million tokens that a language model reads and writes once."""
    sources = [source for source in config.sources if source.collection == collection]
    return {source.name: _price_of(source.chunking.options) for source in sources}


def _price_of(options: object) -> float:
    """Return the price of the most expensive strategy in the options."""
    inner = [value.options for value in vars(options).values() if hasattr(value, "options")]
    own: float = getattr(options, "prompt_price", 0.0) + getattr(options, "answer_price", 0.0)
    return max([own, *map(_price_of, inner)])


def merge(old: Choices, new: Choices) -> Choices:
    """Return the old choices, with sources and parsers added that only the new ones have."""
    sources = {**new["sources"], **old["sources"]}
    for name in old["sources"].keys() & new["sources"].keys():
        parsing = {**new["sources"][name]["parsing"], **old["sources"][name]["parsing"]}
        sources[name] = {**old["sources"][name], "parsing": parsing}
    return {**old, "sources": sources}


def without_unused(choices: Choices, read_by: Mapping[SourceName, Collection[str]]) -> Choices:
    """Return the choices without parsers that read no document of a source, so that their changes change
    nothing.

    ``read_by``: by source, the parsers that read its documents.
    """

    def of(name: str, source: Mapping[str, Any]) -> dict[str, Any]:
        used = read_by.get(SourceName(name), ())
        parsing = source["parsing"].items()
        return {**source, "parsing": {kind: choice for kind, choice in parsing if kind in used}}

    return {**choices, "sources": {name: of(name, source) for name, source in choices["sources"].items()}}


def as_chosen(config: Config, choices: Choices, detection: Fingerprint) -> Config:
    """Return the config with these choices in place of its own. Raises NotReproducible."""
    if choices.get("detection") != detection:
        raise NotReproducible("the detection of formats changed")
    embedding = _choice("embedders", choices["embedding"], config.embedding)
    return replace(
        config,
        embedding=embedding,
        sources=tuple(
            replace(_source(source, choices["sources"].get(source.name)), metadata=profile_of(choices))
            for source in config.sources
        ),
    )


def profile_of(choices: Choices) -> Profile:
    """Return which metadata keys the records carry."""
    stored = choices.get("metadata", "full")
    return stored if stored in ("full", "lean") else tuple(stored)


def shards_of(choices: Choices) -> int:
    """Return the number of collections in Chroma that hold the records."""
    return int(choices.get("shards", 1))


def _source(source: SourceConfig, stored: Mapping[str, Any] | None) -> SourceConfig:
    if stored is None:
        return source
    chunking = _choice("chunkers", stored["chunking"], source.chunking)
    today = {choice.plugin.kind: choice for choice in parsers_of(source)}
    parsers = tuple(
        _choice("parsers", stored["parsing"][kind], choice) if kind in stored["parsing"] else choice
        for kind, choice in today.items()
    )
    types = tuple((pattern, kind) for pattern, kind in stored.get("types", ()))
    return replace(source, chunking=chunking, parsing=parsers, types=types)


def _choice(group: Group, stored: Mapping[str, Any], today: Choice) -> Choice:
    if stored.items() >= _to_store(today).items():  # with its secrets and tuning, at any depth of the options
        return today
    try:
        plugin = find(group, stored["kind"])
        tuning = options_of_speed(today.options) if today.plugin.kind == plugin.kind else {}
        options = plugin.options.model_validate({**tuning, **complete(plugin.options, stored["options"])})
    except (UnknownKind, ValidationError) as error:
        raise NotReproducible(f"{stored['kind']}: {error}") from error
    if plugin.version != stored["version"]:
        raise NotReproducible(f"{plugin.kind} has another version now")
    return Choice(plugin, options)


def _to_store(choice: Choice) -> dict[str, Any]:
    plugin = choice.plugin
    return {"kind": plugin.kind, "version": plugin.version, "options": recipe_options(choice.options)}


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two configs. ``source`` is "" for the embedder."""

    source: str
    key: str
    before: str
    after: str

    def __str__(self) -> str:
        where = f"{self.source}: " if self.source else ""
        return f"{where}{self.key}: {self.before} -> {self.after}"


def changes(old: Choices, new: Choices) -> list[Change]:
    """Return differences that make settled documents due, without new and removed sources and parsers."""
    same = old["embedding"]["recipe"] == new["embedding"]["recipe"]  # also if the model's folder moved
    differences = [] if same else list(_compare("", "embedding", old["embedding"], new["embedding"]))
    if old.get("detection") != new.get("detection"):
        differences.append(Change("", "the detection of formats", "as before", "as this version does"))
    if shards_of(old) != shards_of(new):
        differences.append(Change("", "shards", str(shards_of(old)), str(shards_of(new))))
    for name in sorted(old["sources"].keys() & new["sources"].keys()):
        before, after = old["sources"][name], new["sources"][name]
        differences += _compare(name, "chunking", before["chunking"], after["chunking"])
        types, others = (dict(each.get("types", ())) for each in (before, after))
        if list(types.items()) != list(others.items()):
            differences.append(Change(name, "parsing.types", json.dumps(types), json.dumps(others)))
        for kind in sorted(before["parsing"].keys() & after["parsing"].keys()):
            differences += _compare(name, f"parsing.{kind}", before["parsing"][kind], after["parsing"][kind])
    return differences


def metadata_change(old: Choices, new: Choices) -> Change | None:
    """Return the difference in metadata keys, which by itself is applied in place."""
    before, after = (json.dumps(profile_of(each)) for each in (old, new))
    return Change("", "metadata", before, after) if before != after else None


def _compare(source: str, at: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    kind = "strategy" if at == "chunking" else "kind"
    if old["kind"] != new["kind"]:
        yield Change(source, f"{at}.{kind}", old["kind"], new["kind"])
        return
    if old["version"] != new["version"]:
        yield Change(source, f"version of {new['kind']}", str(old["version"]), str(new["version"]))
    for name in sorted(old["options"].keys() | new["options"].keys()):
        before, after = old["options"].get(name), new["options"].get(name)
        if before != after:
            yield Change(source, f"{at}.{name}", json.dumps(before), json.dumps(after))
    if old == {**new, "recipe": old.get("recipe")} and old.get("recipe") != new.get("recipe"):
        yield Change(source, at, "as computed before", "as this machine computes it")


def strategies_and_model(choices: Choices) -> tuple[tuple[str, ...], str]:
    """Return the sorted names of the chunking strategies, and the name of the embedding model."""
    embedding = choices["embedding"]
    strategies = {source["chunking"]["kind"] for source in choices["sources"].values()}
    return tuple(sorted(strategies)), str(embedding["options"].get("model") or embedding["kind"])
