"""The collections in Chroma that one collection is made of, where the config gives it several shards. Pure.

A record is in the shard given by the hash of its document's id. The id stays when a document is renamed, so
its records stay where they are. Names carry the number of shards, so that no reader takes a part for all.
"""

from collections.abc import Sequence
from hashlib import blake2b

MOST = 64  # shards of a collection
_BETWEEN = "+"  # the UUIDs of the shards, in columns of the journal and the lexical index


def shard_of(id_: str, shards: int) -> int:
    """Return the shard, from 0, for the id of a document or of a record."""
    document = id_.partition("#")[0]
    return int.from_bytes(blake2b(document.encode(), digest_size=8).digest()) % shards


def shard_names(name: str, shards: int) -> tuple[str, ...]:
    """The names in Chroma of the shards of a collection; its own name if it has one shard."""
    return tuple(f"{name}-{number}-of-{shards}" for number in range(shards)) if shards > 1 else (name,)


def join(uuids: Sequence[str]) -> str:
    """Join the UUIDs of all shards into one text; a single UUID is unchanged."""
    return _BETWEEN.join(uuids)


def separate(joined: str | None) -> tuple[str, ...]:
    """Return the UUIDs that ``join`` joined; none of nothing."""
    return tuple(joined.split(_BETWEEN)) if joined else ()
