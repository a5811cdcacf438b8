"""Documents prepared in memory: a reader of one text, the tools of a pipeline, and what they make of it."""

from typing import Any

from ingestor.core.entries import EditionName, Entry
from ingestor.core.metadata_keys import Profile
from ingestor.model import Blob, DocumentId, Fingerprint, Item, SourceName
from ingestor.pipeline.metadata import Describing
from ingestor.pipeline.prepare import Job, Prepared, Reader, Tools, prepare
from ingestor.ports import Embed
from ingestor.registry import find
from tests.chunkers.laws import TOKENS
from tests.parsers.laws import parser


def tools_of(
    text: str, strategy: str, embed: Embed, *, profile: Profile = "full", options: Any = None, **more: Any
) -> Tools:
    """Return tools that read this text.

    ``options`` are those of the strategy, ``more`` are fields of the tools.
    """
    plugin, parsers = find("chunkers", strategy), {"text": parser("text")}
    chosen = plugin.options(**(options or {}))
    reader = Reader(
        SourceName("notes"),
        lambda item: Blob(text.encode(), item.key),
        parsers,
        {"text": Fingerprint("text")},
    )
    return Tools(
        reader, plugin.build(chosen, TOKENS), Fingerprint(strategy),
        Describing(reader.source, strategy, profile), embed, Fingerprint("model"), TOKENS.counts,
        context=chosen.context, **more,
    )  # fmt: skip


def entry(tools: Tools, size: int | None = None) -> Entry:
    """Return the entry of a new document of this size."""
    item, empty = Item("a.txt", "1", "/a.txt", size), (None,) * 5
    return Entry(1, DocumentId("d"), tools.reader.source, EditionName("docs"), item.key, item, *empty, 0)


def made(tools: Tools, entry: Entry) -> Prepared:
    return prepare(Job(entry), tools, lambda *_: None)
