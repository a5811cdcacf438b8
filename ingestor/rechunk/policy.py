"""Decides what a changed config means for a collection, by values that the journal stores as JSON. Pure.

``Choices`` are the settings of a config that decide the recipes of a collection. While new choices wait for
approval or are being built, the collection is kept in step by its old choices. This works after a restart,
too, when the config on disk has only the new choices. Secrets and tuning options are not stored: they are
read from today's config.

``decide`` chooses what to do with a collection, and ``editions_of`` which editions are then kept in step. The
daemon, `plan` and the simulation call both. rechunk/swap.py carries out the decision.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import ValidationError

from ingestor.config.models import Choice, Config, Rechunk, SourceConfig
from ingestor.core.entries import Choices, Edition, EditionName
from ingestor.core.fingerprint import complete, fingerprint, options_of_speed, recipe_options
from ingestor.core.metadata_keys import Profile
from ingestor.model import CollectionName, Fingerprint, SourceName
from ingestor.registry import Group, UnknownKind, find, kinds
from ingestor.units import quantity

# Keys of ``Choices``: "detection": fingerprint of the rules by which formats are detected; "embedding": kind,
# version, options and recipe of the embedder; "sources": by name, a mapping with "chunking", "parsing" (by
# parser) and "types" if the config sets any; "metadata": the profile unless it is "full"; "shards": their
# number unless it is 1.


class NotReproducible(Exception):
    """Error: stored choices cannot be reproduced here, because a plugin is missing or has another version."""


def choices_of(
    config: Config, collection: CollectionName, embedder: Fingerprint, detection: Fingerprint
) -> Choices:
    """Return the choices that a config makes for a collection.

    ``embedder``: the recipe of the configured embedder. ``detection``: the result of detect.rules().
    """
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
    """Return every installed parser, with the options that the source sets, or else the parser's defaults."""
    chosen = {choice.plugin.kind: choice for choice in source.parsing}
    plugins = [find("parsers", kind) for kind in kinds("parsers") if kind not in chosen]
    every = chosen | {plugin.kind: Choice(plugin, plugin.options()) for plugin in plugins}
    return [every[kind] for kind in kinds("parsers")]


def model_prices(config: Config, collection: CollectionName) -> dict[SourceName, float]:
    """Return the price of a language model for each source: of reading a million tokens and writing a
    million.

    The price is 0 for sources whose chunking strategy uses no language model.
    """
    sources = [source for source in config.sources if source.collection == collection]
    return {source.name: _price_of(source.chunking.options) for source in sources}


def _price_of(options: object) -> float:
    """Return the price of reading and writing a million tokens each, by a strategy's options.

    If other strategies are nested in the options, the highest price is returned.
    """
    inner = [value.options for value in vars(options).values() if hasattr(value, "options")]
    own: float = getattr(options, "prompt_price", 0.0) + getattr(options, "answer_price", 0.0)
    return max([own, *map(_price_of, inner)])


def merge(old: Choices, new: Choices) -> Choices:
    """Return the old choices, extended by the sources and parsers that only the new choices have."""
    sources = {**new["sources"], **old["sources"]}
    for name in old["sources"].keys() & new["sources"].keys():
        parsing = {**new["sources"][name]["parsing"], **old["sources"][name]["parsing"]}
        sources[name] = {**old["sources"][name], "parsing": parsing}
    return {**old, "sources": sources}


def without_unused(choices: Choices, read_by: Mapping[SourceName, Collection[str]]) -> Choices:
    """Return choices without the parsers that read no document: their changes have no effect.

    ``read_by``: by source, the parsers that read its documents.
    """

    def of(name: str, source: Mapping[str, Any]) -> dict[str, Any]:
        used = read_by.get(SourceName(name), ())
        parsing = source["parsing"].items()
        return {**source, "parsing": {kind: choice for kind, choice in parsing if kind in used}}

    return {**choices, "sources": {name: of(name, source) for name, source in choices["sources"].items()}}


def as_chosen(config: Config, choices: Choices, detection: Fingerprint) -> Config:
    """Return the config with stored choices in place of its own choices.

    ``detection``: fingerprint of the present rules by which content types are detected. Raises
    NotReproducible if the choices were made by other rules, or if a plugin is missing or has another version.
    """
    if choices.get("detection") != detection:
        raise NotReproducible("the detection of formats changed")
    embedding = _choice("embedders", choices["embedding"], config.embedding)
    stored, profile = choices["sources"], profile_of(choices)
    chosen = (_source(source, stored.get(source.name)) for source in config.sources)
    sources = tuple(replace(source, metadata=profile) for source in chosen)
    return replace(config, embedding=embedding, sources=sources)


def profile_of(choices: Choices) -> Profile:
    """Return the profile, which decides the metadata keys that the records of a collection have."""
    stored = choices.get("metadata", "full")
    return stored if stored in ("full", "lean") else tuple(stored)


def shards_of(choices: Choices) -> int:
    """Return the number of shards, the collections in Chroma over which the records are divided."""
    return int(choices.get("shards", 1))


def _source(source: SourceConfig, stored: Mapping[str, Any] | None) -> SourceConfig:
    """Return a source with its stored settings. Raises NotReproducible if that is not possible here."""
    if stored is None:
        return source
    chunking = _choice("chunkers", stored["chunking"], source.chunking)
    parsing = stored["parsing"]
    pairs = ((parsing.get(choice.plugin.kind), choice) for choice in parsers_of(source))
    parsers = tuple(today if old is None else _choice("parsers", old, today) for old, today in pairs)
    types = tuple((pattern, kind) for pattern, kind in stored.get("types", ()))
    return replace(source, chunking=chunking, parsing=parsers, types=types)


def _choice(group: Group, stored: Mapping[str, Any], today: Choice) -> Choice:
    """Return a plugin with its stored options. Raises NotReproducible if the plugin is missing or has
    changed.

    ``today``: today's choice of the same plugin, for options that are not stored, such as secrets.
    """
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
    """A setting that differs between two choices, as shown to people.

    ``source``: its source; "" for the embedder.
    """

    source: str
    key: str
    before: str
    after: str

    def __str__(self) -> str:
        where = f"{self.source}: " if self.source else ""
        return f"{where}{self.key}: {self.before} -> {self.after}"


def changes(old: Choices, new: Choices) -> list[Change]:
    """Return the differences for which documents must be prepared again.

    Sources and parsers that only one of the choices has are left out.
    """
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
    """Return the difference in metadata keys, or None.

    Such a change alone needs no rebuild: records are patched.
    """
    before, after = (json.dumps(profile_of(each)) for each in (old, new))
    return Change("", "metadata", before, after) if before != after else None


def _compare(source: str, at: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Yield the settings that differ between two stored choices of a plugin.

    ``source``, ``at``: the source and the part of its config, as shown to people.
    """
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


# --- decisions ------------------------------------------------------------------------------------------

UNDONE = "this change of the config was undone by `ingestor rollback`"


@dataclass(frozen=True, slots=True)
class CollectionSituation:
    """Everything about a collection on which ``decide`` depends: the journal's facts and the config's
    choices.

    ``live``, ``building``: the choices of the edition that readers see, and of its replacement. Parsers that
    read no document are left out. Each is None if there is no such edition or its choices are unknown.
    ``embedder``: the recipe of the vectors. ``wanted``: the choices of today's config. ``editions``: the live
    edition, then its replacement if one is being built.
    """

    live: Choices | None
    building: Choices | None
    embedder: str | None
    wanted: Choices
    empty: bool = False  # whether it has no records
    chunks: int = 0  # records of the sources whose choices change
    tokens: int = 0  # estimated number of tokens of these sources
    asking: float = 0.0  # estimated cost of asking language models for their chunks
    approved: str | None = None  # fingerprint of the choices that a person approved
    refused: str | None = None  # fingerprint of the choices that a person rolled back
    rebuild: str | None = None  # why all records must be written into another collection under any config
    resharded: bool = False  # whether the collection in Chroma has another number of shards than ``wanted``
    moved: bool = False  # whether the same config selects another embedder on this machine
    editions: tuple[Edition, ...] = ()


@dataclass(frozen=True, slots=True)
class EditionSetup:
    """An edition to keep in step with the sources.

    ``edition``: its name; None if it must be created. ``choices``: the choices by which its documents are
    prepared. If they are None, they are unknown: then vanished documents are removed, but none is added.
    ``building``: whether readers do not see the edition yet.
    """

    serves: CollectionName
    edition: EditionName | None
    choices: Choices | None
    building: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a collection under a config.

    ``act``: ``follow`` applies the wanted choices to the live edition, in place. ``build`` builds another
    edition. ``continue`` builds the edition that was begun. ``keep`` keeps the old choices, for the
    reason ``why``. All acts except ``continue`` delete an edition that is being built. To change such an
    edition by a second write would make search miss records.

    ``choices``: the choices in force afterwards, for the replacement if one is built. ``changes``: the
    differences between the choices of the live edition and the wanted ones.
    """

    act: Literal["follow", "build", "continue", "keep"]
    choices: Choices
    changes: tuple[Change, ...] = ()
    why: str = ""


def editions_of(now: CollectionSituation, decision: Decision) -> list[EditionSetup]:
    """Return the editions to keep in step after a decision, the one that readers see first."""
    live, *building = now.editions
    if decision.act in ("follow", "keep"):
        return [EditionSetup(live.serves, live.name, decision.choices)]
    built = building[0].name if decision.act == "continue" else None
    return [
        EditionSetup(live.serves, live.name, live.choices),
        EditionSetup(live.serves, built, decision.choices, building=True),
    ]


def decide(now: CollectionSituation, rechunk: Rechunk) -> Decision:
    """Decide what to do with a collection. ``rechunk``: the settings of the config about changes."""
    decision = _by_config(now, rechunk)
    if not now.rebuild or now.empty or decision.act not in ("follow", "keep"):
        return decision
    under_way = now.building is not None and not changes(now.building, decision.choices)
    return replace(decision, act="continue" if under_way else "build")


def _by_config(now: CollectionSituation, rechunk: Rechunk) -> Decision:
    """Decide by the config and by people's approvals, without regard to requests for a rebuild."""
    wanted, live = now.wanted, now.live
    other_embedder = now.embedder not in (None, wanted["embedding"]["recipe"])
    anew = other_embedder or now.resharded  # cannot be changed document by document
    if now.empty and not now.resharded:
        return Decision("follow", wanted)
    if live is None:
        return Decision("build" if anew else "follow", wanted)
    differences = tuple(changes(live, wanted))
    if not (differences or other_embedder):
        return Decision("follow", wanted)
    token = fingerprint_of(wanted)
    if token == now.refused:
        return Decision("keep", merge(live, wanted), differences, UNDONE)
    if now.building is not None and not changes(now.building, wanted):
        return Decision("continue", wanted, differences)
    if token != now.approved and (why := _asks(now, rechunk)):
        return Decision("keep", merge(live, wanted), differences, why)
    if anew or rechunk.mode == "swap":
        return Decision("build", wanted, differences)
    return Decision("follow", wanted, differences)


def fingerprint_of(choices: Choices) -> str:
    """Return the fingerprint by which the approval or the rollback of these choices is stored.

    Metadata keys are left out, because their change needs no approval.
    """
    return fingerprint({name: value for name, value in choices.items() if name != "metadata"})


def cost(tokens: int, rechunk: Rechunk) -> float:
    """Return the cost of embedding this number of tokens, in the currency of ``rechunk.price``."""
    return tokens / 1e6 * rechunk.price


def _asks(now: CollectionSituation, rechunk: Rechunk) -> str:
    """Return why a person must approve a change before it is carried out; "" if no approval is needed."""
    if now.moved:
        return "this machine computes other vectors than the machine that embedded the collection"
    bound = rechunk.approve
    if bound is not None and bound.chunks is not None and now.chunks > bound.chunks:
        return f"{quantity(now.chunks, 'chunk')} exceed the limit of {bound.chunks:,} (rechunk.approve)"
    price = cost(now.tokens, rechunk) + now.asking
    if bound is not None and bound.cost is not None and price > bound.cost:
        return f"the cost of about {price:.2f} exceeds the limit of {bound.cost:g} (rechunk.approve)"
    return ""
