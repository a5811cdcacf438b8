"""Strategies that an evaluation compares, and the config that each of them stands for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from pydantic import SecretStr, ValidationError

from ingestor.config.models import Choice, SourceConfig
from ingestor.config.servers import Rerank
from ingestor.core.fingerprint import meaningful, options_of_speed, plugin_fingerprint
from ingestor.llm.options import Endpoint
from ingestor.model import Document, SourceName
from ingestor.registry import Options, find
from ingestor.search.values import Mode
from ingestor.text.sections import headings

_STEP = 25  # tokens; sizes are multiples of it
_SMALLEST = 50  # tokens
MOST_COMPARED = 8  # strategies, if the request names none


@dataclass(frozen=True, slots=True)
class StrategyExtras:
    """Settings of a strategy besides its chunking.

    ``words``: the settings as KEY=VALUE, as written in ``--strategies``. ``parsing``, ``types``: settings of
    parsers, which override the same settings of a source. ``search``: mode of search; None for the modes of
    the request. ``rerank``: settings of the reranker; None to search without a reranker.
    """

    words: tuple[str, ...] = ()
    parsing: tuple[Choice, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    search: Mode | None = None
    rerank: Rerank | None = None

    def read(self, source: SourceConfig) -> SourceConfig:
        """Return a source's config, in which the strategy's settings of parsers replace those of the source.

        Options of a parser that the strategy does not set are kept.
        """
        parsers = {choice.plugin.kind: choice for choice in source.parsing}
        for given in self.parsing:
            values = {name: getattr(given.options, name) for name in given.options.model_fields_set}
            own = parsers.get(given.plugin.kind)
            changed = own and Choice(own.plugin, own.options.model_copy(update=values))
            parsers[given.plugin.kind] = changed or given
        return replace(source, parsing=tuple(parsers.values()), types=(*self.types, *source.types))


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to parse, chunk and search documents, which an evaluation compares with others.

    ``choice``: the chunker and its options. ``configured``: whether the config sets this strategy. ``own``:
    the chunking of sources for which the config sets another one; empty unless ``configured``. ``beside``:
    the settings besides the chunking.
    """

    choice: Choice
    configured: bool = False
    own: Mapping[SourceName, Choice] = field(default_factory=dict)
    beside: StrategyExtras = StrategyExtras()

    @property
    def name(self) -> str:
        """Return the name with the options that are set, as written in ``--strategies``."""
        options = (f"{key}={_show(value)}" for key, value in self.options.items())
        return ":".join([self.choice.plugin.kind, *options, *self.beside.words])

    @property
    def parser_settings(self) -> tuple[str, ...]:
        """Return the strategy's settings of parsers as KEY=VALUE.

        Strategies with equal settings parse the documents to the same texts.
        """
        return tuple(sorted(each for each in self.beside.words if each.startswith("parsing.")))

    def cuts_as(self, other: "Strategy") -> bool:
        """Return whether this strategy and another one make the same chunks, with the same vectors."""
        same = is_same_choice(self.choice, other.choice) and self.own == other.own
        return same and self.parser_settings == other.parser_settings

    def with_modes(self, modes: Sequence[Mode]) -> "list[Strategy]":
        """Return a strategy for each mode of search in ``modes``.

        A strategy that sets a mode itself is returned unchanged.
        """
        if self.beside.search is not None:
            return [self]
        strategies = []
        for mode in modes:
            words = self.beside.words + ((f"search={mode}",) if len(modes) > 1 else ())
            beside = replace(self.beside, words=words, search=mode)
            strategies.append(replace(self, beside=beside, configured=self.configured and mode == modes[0]))
        return strategies

    @property
    def options(self) -> dict[str, Any]:
        """Return the chunker's options that are set, except options that change only the speed."""
        options = self.choice.options
        given = options.model_fields_set - _list_implied(options)
        return {key: value for key, value in meaningful(options).items() if key in given}

    @property
    def extras(self) -> dict[str, Any]:
        """Return the settings besides the chunking as nested mappings, as a config has them."""
        tree: dict[str, Any] = {}
        for each in self.beside.words:  # rerank.hits=50 is {"search": {"rerank": {"hits": 50}}}
            key, _, value = each.partition("=")
            *path, last = ["search", *key.split(".")] if key.startswith("rerank.") else key.split(".")
            inner = tree
            for step in path:
                inner = inner.setdefault(step, {})
            if path:
                inner[last] = yaml.safe_load(value)
        return tree

    @property
    def yaml(self) -> str:
        """Return the YAML that sets this strategy in a config."""
        options = {**self.options, **_dump_tuning(self.choice.options)}
        section = {"chunking": {"strategy": self.choice.plugin.kind, **options}, **self.extras}
        return str(yaml.safe_dump(section, sort_keys=False, allow_unicode=True))

    @property
    def models(self) -> list[str]:
        """Return the names of the language models that the strategy calls."""
        return [name for each in (self.choice, *self.own.values()) for name in _models(each.options)]

    def of(self, source: SourceName) -> Choice:
        """Return the chunking that the strategy uses for a source."""
        return self.own.get(source, self.choice)


def most_common_strategy(chunkings: Mapping[SourceName, Choice]) -> Strategy:
    """Return the strategy that the config sets for a collection.

    The strategy's chunking is the one that most sources have; the chunking of other sources is kept in
    ``own``. ``chunkings``: chunking of each source; there must be at least one.
    """
    choices = list(chunkings.values())
    most = max(choices, key=lambda choice: sum(is_same_choice(choice, other) for other in choices))
    return Strategy(most, True, {name: c for name, c in chunkings.items() if not is_same_choice(c, most)})


def worth_comparing(base: Strategy, mean_tokens: float, documents: Iterable[Document]) -> list[Strategy]:
    """Return strategies to compare with ``base`` if the user names none.

    Their mean chunks are about as large as those of ``base``, except one strategy with chunks of twice that
    size. A mean chunk of ``recursive`` has two thirds of its ``size``, a mean chunk of ``cluster`` half of
    its ``max_tokens``. If documents have headings, two more strategies are added: ``structure``, and
    ``changepoint`` with vectors of whole chunks, which embeds every text twice (decision 0052).
    ``mean_tokens``: mean size of chunks of ``base``.
    """
    size = _round_size(mean_tokens)
    others = [
        _strategy("changepoint", target=size),
        _strategy("changepoint", target=2 * size),
        _strategy("recursive", size=_round_size(1.5 * size)),
        _strategy("cluster", max_tokens=2 * size),
        _strategy("fixed", size=2 * size, overlap=size),
    ]
    if any(len(headings(document)) >= 2 for document in documents):
        others[2:2] = [
            _strategy("changepoint", target=size, vectors="encoded"),
            _strategy("structure", max_tokens=2 * size),
        ]
    return distinct([base, *others])[1:]


def distinct(strategies: Sequence[Strategy]) -> list[Strategy]:
    """Return the strategies without repetitions. Strategies with equal chunks and settings count as equal."""
    kept: list[Strategy] = []
    for each in strategies:
        words = sorted(each.beside.words)
        if not any(each.cuts_as(other) and words == sorted(other.beside.words) for other in kept):
            kept.append(each)
    return kept


def _list_implied(options: Options) -> set[str]:
    """Return the names of options that pydantic counts as set, although the user did not set them.

    Some options are set by a validator, and lists and mappings are set when the check of the config copies
    them.
    """
    fields = type(options).model_fields
    defaults = {name: each.get_default(call_default_factory=True) for name, each in fields.items()}
    copied = {name for name, value in defaults.items() if isinstance(value, tuple | list | dict)}
    try:
        bare = type(options)()
    except ValidationError:  # some options are required, so no validator fills in others
        return {name for name in copied if getattr(options, name) == defaults[name]}
    filled = copied | bare.model_fields_set
    return {name for name in filled if getattr(options, name) == getattr(bare, name)}


def _dump_tuning(options: Options) -> dict[str, Any]:
    """Return the options that the user set and that change only the speed.

    Each secret is replaced by the name of an environment variable.
    """
    speed, known = options_of_speed(options), options.model_fields_set
    given = {name: value for name, value in speed.items() if name in known}
    plain = {name: f"${{{name.upper()}}}" for name, value in given.items() if isinstance(value, SecretStr)}
    return options.model_dump(mode="json", include=set(given)) | plain


def _models(options: Options) -> Iterator[str]:
    """Yield the names of the language models that options of a chunker name."""
    if isinstance(options, Endpoint):
        yield options.model
    for _, value in options:
        if hasattr(value, "options"):  # a pick of ``auto``
            yield from _models(value.options)


def _strategy(kind: str, **options: int | str) -> Strategy:
    plugin = find("chunkers", kind)
    return Strategy(Choice(plugin, plugin.options.model_validate(options)))


def _round_size(tokens: float) -> int:
    """Round a chunk size to a multiple of 25 tokens, at least 50."""
    return max(_SMALLEST, round(tokens / _STEP) * _STEP)


def is_same_choice(one: Choice, other: Choice) -> bool:
    """Return whether two chunkings give the same chunks: the same chunker with equal options."""
    return plugin_fingerprint(one.plugin, one.options) == plugin_fingerprint(other.plugin, other.options)


def _show(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
