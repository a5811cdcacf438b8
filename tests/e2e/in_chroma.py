"""Looks at a collection in this process, and lets go of Chroma's files again."""

from pathlib import Path
from typing import Any

import chromadb

# Ids of records that are not among the hundred nearest of their own vector, nor is a record of the same text.
_UNFOUND = """
found = collection.get(include=["documents", "embeddings"])
near = []
for vector in found["embeddings"]:
    near.append(collection.query(query_embeddings=[vector], n_results=100, include=["documents"]))
rows = zip(found["ids"], found["documents"], near)
result = [id_ for id_, text, hits in rows if id_ not in hits["ids"][0] and text not in hits["documents"][0]]
"""


def everything(folder: Path, collection: str) -> list[Any]:
    """(id, text, metadata, vector) of every record; nothing else may have Chroma open."""
    with chromadb.PersistentClient(folder) as client:
        found = client.get_collection(collection).get(include=["documents", "metadatas", "embeddings"])
        vectors = [vector.tolist() for vector in found["embeddings"]]
        return list(zip(found["ids"], found["documents"], found["metadatas"], vectors, strict=True))


def lost(folder: Path, collection: str) -> set[str]:
    """Ids of records that no search finds, whatever the start of Chroma.

    Each start makes the graph of a small collection again from its log, and may lose the way to other records
    than the one before (docs/rechunking.md): those that ``verify`` found may be unfound in the next one.
    """
    found = set(in_chroma(folder, collection, _UNFOUND))
    for _ in range(3):
        found &= set(in_chroma(folder, collection, _UNFOUND)) if found else set()
    return found


def in_chroma(folder: Path, collection: str, statement: str) -> Any:
    """What the statement leaves in ``result``."""
    with chromadb.PersistentClient(folder) as client:
        scope = {"client": client, "collection": client.get_collection(collection), "result": None}
        exec(statement, scope)
        return scope["result"]
