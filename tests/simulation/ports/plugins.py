"""The plugins of the simulated world, as the registry hands them out: each part finds its world by a number.

The number is an option that tunes, so it is in no recipe, and stored recipes are reproduced in today's world.
"""

from collections.abc import Sequence
from random import Random
from threading import Event
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

from ingestor.engine.vectors import HARMLESS
from ingestor.model import Answered, ReaderModel, Vector, Vectors
from ingestor.ports import NeedsHuman, Transient
from ingestor.registry import Options, Plugin, UnknownKind, tuning
from tests.simulation.ports.files import Files
from tests.simulation.ports.making import Fickle, Lines, Parsing, vector

if TYPE_CHECKING:
    from tests.simulation.world import World

IDS = Random()  # of documents; each world seeds it
WORLDS: WeakValueDictionary[int, "World"] = WeakValueDictionary()


class InWorld(Options):
    world: int = tuning(0)


class Place(InWorld):
    root: str = "/root"


class LinesOptions(InWorld):
    per_chunk: int = 1


class Flavour(InWorld):
    flavour: str = "sweet"


class Address(Flavour):
    """Where a server embeds. ``revision``: another word has everything embedded again."""

    revision: int = 0
    key: str = tuning("secret")


class Flavoured:
    """An embedder that dies and fails at any text."""

    window = 2**31 - 1
    dimensions = 4

    def __init__(self, options: Flavour) -> None:
        self._flavour, self._world = options.flavour, WORLDS[options.world]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """What befalls a text befalls it again when the same document asks again."""
        self._require_key()
        for text in texts if texts != [HARMLESS] else ():
            self._world.embed(text)
        return np.array([vector(text, self._flavour) for text in texts], np.float32).reshape(-1, 4)

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    def reader_model(self) -> ReaderModel:
        return ReaderModel("sentence_transformer", {"model_name": self._flavour})

    def _require_key(self) -> None:
        if self._flavour in self._world.refused:
            raise NeedsHuman(f"the key for {self._flavour} is refused")


class Served(Flavoured):
    """An embedder at a server, which is away at times, and whose model is another one at times."""

    at_once = 16

    def __init__(self, options: Address) -> None:
        super().__init__(options)

    def embed(self, texts: Sequence[str]) -> Vectors:
        answered = self.embed_each(texts, Event())
        for each in answered.vectors:
            if isinstance(each, Exception):
                raise each
        return np.array(answered.vectors, np.float32).reshape(-1, 4)

    def embed_each(self, texts: Sequence[str], stop: Event) -> Answered:
        self._require_key()
        if self._world.server_away:
            return Answered([Transient("the embedding server is away")] * len(texts), 0)
        return Answered([self._vector(text) for text in texts], sum(map(len, texts)))

    def _vector(self, text: str) -> Vector | Exception:
        try:
            if text != HARMLESS:
                self._world.embed(text)
        except Exception as error:  # noqa: BLE001 - whatever was injected befell this text alone
            return error
        return vector(text, self._world.server_model or self._flavour)


def connector(options: Place) -> Files:
    world = WORLDS[options.world]
    return next(each for each in (*world.places.values(), *world.apart) if each.root == options.root)


CONNECTOR = Plugin("simulated", 1, Place, connector)
EMBEDDER = Plugin("plain", 1, Flavour, Flavoured)
SERVED = Plugin("served", 1, Address, Served)
LINES = Plugin("lines", 1, LinesOptions, lambda options, tokens: Lines(options.per_chunk))
FICKLE = Plugin("fickle", 1, LinesOptions, lambda options, tokens: Fickle())


class ParsingInWorld:
    """Builds the parser of a world, which runs in the world's process: another one has no worlds."""

    isolated = False

    def __call__(self, options: InWorld) -> Parsing:
        return Parsing(WORLDS[options.world])


def parser(version: int) -> Plugin:
    return Plugin("text", version, InWorld, ParsingInWorld())


_KNOWN = {"connectors": [CONNECTOR], "parsers": [parser(0)], "chunkers": [LINES, FICKLE],
          "embedders": [EMBEDDER, SERVED]}  # fmt: skip


def find(group: str, kind: str) -> Plugin:
    """As registry.find. The parser is of no version that a world ever had: only its own one can be made."""
    for plugin in _KNOWN[group]:
        if plugin.kind == kind:
            return plugin
    raise UnknownKind(kind)


def token_hex(size: int) -> str:
    return IDS.randbytes(size).hex()


def kinds(group: str) -> tuple[str, ...]:
    return tuple(plugin.kind for plugin in _KNOWN[group])
