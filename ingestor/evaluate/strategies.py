"""Which strategies are compared, and how a config says them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from pydantic import ValidationError

from ingestor.config.models import Choice
from ingestor.core.fingerprint import meaningful, plugin_fingerprint
from ingestor.model import Document, SourceName
from ingestor.registry import Options, find
from ingestor.text.sections import headings

_STEP = 25  # tokens; sizes are multiples of it
_SMALLEST = 50  # tokens
MOST_COMPARED = 8  # strategies, where none are named


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to cut. ``own``: of sources that the config cuts otherwise; only the configured one has any."""

    choice: Choice
    configured: bool = False
    own: Mapping[SourceName, Choice] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As in ``--strategies``, with the options that are given."""
        options = ":".join(f"{key}={_shown(value)}" for key, value in self.options.items())
        return ":".join(filter(None, [self.choice.plugin.kind, options]))

    @property
    def options(self) -> dict[str, Any]:
        """Those that are given, less what changes speed alone."""
        options = self.choice.options
        given = options.model_fields_set - _implied(options)
        return {key: value for key, value in meaningful(options).items() if key in given}

    @property
    def yaml(self) -> str:
        """For a config."""
        said = {"chunking": {"strategy": self.choice.plugin.kind, **self.options}}
        return str(yaml.safe_dump(said, sort_keys=False, allow_unicode=True))

    def of(self, source: SourceName) -> Choice:
        return self.own.get(source, self.choice)


def configured(chunkings: Mapping[SourceName, Choice]) -> Strategy:
    """As the sources of a collection say it, at least one; its name is that of most of them."""
    choices = list(chunkings.values())
    most = max(choices, key=lambda choice: sum(_same(choice, other) for other in choices))
    return Strategy(most, True, {name: c for name, c in chunkings.items() if not _same(c, most)})


def worth_comparing(base: Strategy, mean_tokens: float, documents: Iterable[Document]) -> list[Strategy]:
    """Others, of about the same mean size as ``base`` has, and one of twice that size.

    A mean chunk of ``recursive`` has two thirds of its ``size``, one of ``cluster`` half of its
    ``max_tokens``. Where documents have headings, ``structure`` is compared, and ``changepoint`` with vectors
    of whole chunks, which embeds twice (decision 0052).
    """
    size = max(_SMALLEST, round(mean_tokens / _STEP) * _STEP)
    others = [
        _strategy("changepoint", target=size),
        _strategy("changepoint", target=2 * size),
        _strategy("recursive", size=_multiple(1.5 * size)),
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
    """Each once, by what it does; the first of those that are alike is kept."""
    kept: list[Strategy] = []
    for each in strategies:
        if not any(_same(each.choice, other.choice) and each.own == other.own for other in kept):
            kept.append(each)
    return kept


def _implied(options: Options) -> set[str]:
    """Names of options that count as set without being given, and have the value that they then have.

    Those are what a validator fills in, and lists, which a config's check copies.
    """
    try:
        bare = type(options)()
    except ValidationError:  # there are options that must be given
        return set()
    lists = {name for name, value in bare if isinstance(value, tuple | list)}
    same = {name for name, value in bare if value == getattr(options, name)}
    return (bare.model_fields_set | lists) & same


def _strategy(kind: str, **options: int | str) -> Strategy:
    plugin = find("chunkers", kind)
    return Strategy(Choice(plugin, plugin.options.model_validate(options)))


def _multiple(tokens: float) -> int:
    return max(_SMALLEST, round(tokens / _STEP) * _STEP)


def _same(one: Choice, other: Choice) -> bool:
    return plugin_fingerprint(one.plugin, one.options) == plugin_fingerprint(other.plugin, other.options)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
