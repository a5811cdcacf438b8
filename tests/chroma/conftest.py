"""Servers and clients for all tests: those of the guard have one with a token, and one without."""

from collections.abc import Iterator

import pytest

from ingestor.chroma.client import Client
from ingestor.chroma.server import ChromaServer
from tests.chroma.guarding import TOKEN, WRITER
from tests.serving import HOST, client_of, free_port, server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """With a token of readers, and one that may write."""
    folder = tmp_path_factory.mktemp("guarded")
    with ChromaServer(
        folder / "db",
        HOST,
        free_port(),
        folder / "log",
        tokens=[(TOKEN, "read"), (WRITER, "write")],
        names=["ingestor"],
    ) as running:
        yield running


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """Without a token."""
    with server(tmp_path_factory.mktemp("open")) as running:
        yield running


@pytest.fixture(scope="module")
def served(open_server: ChromaServer) -> Iterator[Client]:
    with client_of(open_server) as client:
        yield client
