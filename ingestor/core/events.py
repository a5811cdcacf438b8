"""Names of log events; docs/log.md explains each with its fields. Pure."""

from collections.abc import Sequence
from typing import Any, Literal

from ingestor.core.escape import line

Event = Literal[
    "cache_trouble", "clock_put_back", "language_unknown", "ended", "in_step", "isolation", "library",
    "listening", "message", "models_asked", "node", "nothing_listed", "other_users", "progress", "request",
    "request_failed", "state_unwritable", "state_writable", "tokens_unknown", "waiting", "words_failed",
    "words_complete",
    "chroma_down", "chroma_restarted", "chroma_slow", "chroma_up",
    "collection_building", "collection_changed_elsewhere", "collection_compared", "collection_dropped",
    "collection_failed", "collection_rebuilt", "collection_renamed", "collection_rolled_back",
    "collection_swapped", "collection_unusable", "collection_usable", "collection_waits",
    "config_reloaded", "config_refused", "config_restart_needed", "config_warning",
    "document_failed", "document_quarantined", "document_retried", "document_unsupported",
    "documents_forgotten", "documents_removed", "documents_written",
    "model_loaded", "model_loading",
    "source_failed", "source_held", "source_listed", "source_renamed", "source_watch_failed",
]  # fmt: skip


def event(name: Event, **fields: Any) -> dict[str, Any]:
    """Return the ``extra`` argument of a log call for an event. Fields that are None are left out."""
    return {"event": name, **{key: value for key, value in fields.items() if value is not None}}


def name_all(keys: Sequence[str]) -> str:
    """Return words for a log line: the first document's key, and how many more documents there are."""
    from ingestor.units import quantity  # here, since it imports pydantic, which every command would load

    return line(keys[0]) + (f" and {quantity(len(keys) - 1, 'more document')}" if len(keys) > 1 else "")
