"""Makes a plugin from a parser that is a single function."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from ingestor.model import Blob, Document
from ingestor.registry import Options, Plugin


@dataclass(frozen=True, slots=True)
class _FunctionParser:
    parse: Callable[[Blob], Document]


@dataclass(frozen=True, slots=True)
class _Build:
    function: Callable[..., Document]
    has_options: bool
    isolated: bool | Literal["large"]

    def __call__(self, options: Options) -> _FunctionParser:
        return _FunctionParser(partial(self.function, options=options) if self.has_options else self.function)


def parser_plugin(
    kind: str,
    version: int | str,
    parse: Callable[..., Document],
    options: type[Options] | None = None,
    *,
    isolated: bool | Literal["large"] = True,
) -> Plugin:
    """Return the plugin of a parser: a function of a blob and, if given, an object of the class ``options``.

    ``isolated``: whether documents are parsed in a confined process; "large" means only large documents.
    """
    return Plugin(kind, version, options or Options, _Build(parse, options is not None, isolated))
