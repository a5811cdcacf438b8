"""Parts that plugins build from their options."""

from typing import Literal

from ingestor.config.models import Choice
from ingestor.ports import (
    Parser,
)
from ingestor.sandbox.pool import Isolated, IsolatedIfLarge, Isolation


def build(choice: Choice):  # type: ignore[no-untyped-def]
    """The part that a plugin builds from its options."""
    return choice.plugin.build(choice.options)


def isolated(choice: Choice) -> bool:
    """Whether this parser always runs in a confined process."""
    return _isolated(choice) is True


def _isolated(choice: Choice) -> bool | Literal["large"]:
    found: bool | Literal["large"] = getattr(choice.plugin.build, "isolated", False)
    return found


def parser(choice: Choice, isolation: Isolation) -> Parser:
    """The parser, or a proxy of it if it runs in a confined process."""
    elsewhere = Isolated(choice.plugin.kind, choice.options, isolation)
    if isolated(choice):
        return elsewhere
    built: Parser = build(choice)
    return IsolatedIfLarge(built, elsewhere) if _isolated(choice) == "large" else built
