"""Opens collections as the program does, over a client of any server."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from ingestor.chroma.backend import ChromaConnection, Collections, Ownership
from ingestor.chroma.client import Client
from ingestor.chroma.index import ChromaIndex
from ingestor.core.entries import ChromaName
from ingestor.core.generations import Model
from ingestor.model import Fingerprint, ReaderModel
from tests.chroma.laws import DIMENSIONS
from tests.serving import HOST, ChromaServer, client_of, free_port

_serial = count()
OURS = Ownership("ours")


def catalog(client: Client, owner: Ownership = OURS) -> Collections:
    """The collections of a server, without supervision."""
    return Collections(ChromaConnection(client), owner)


def embedder(model: ReaderModel | None = None, dimensions: int = DIMENSIONS, *, known: bool = False) -> Model:
    return Model(Fingerprint("embedder"), model, lambda: dimensions, known)


def opened(
    client: Client,
    name: str | None = None,
    *,
    model: ReaderModel | None = None,
    dimensions: int = DIMENSIONS,
    owner: Ownership = OURS,
) -> ChromaIndex:
    name = name or f"collection-{next(_serial)}"
    return catalog(client, owner).open(ChromaName(name), embedder(model, dimensions))[0]


@contextmanager
def chroma_in(folder: Path) -> Iterator[Client]:
    """A client of a server of our own on Chroma's folder, while no other process uses it."""
    with (
        ChromaServer(folder, HOST, free_port(), folder.parent / "private.log") as running,
        client_of(running) as client,
    ):
        yield client
