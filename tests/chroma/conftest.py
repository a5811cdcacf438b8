"""Servers for all tests of a process, with tokens and without. Each test has collections of its own names."""

from collections.abc import Iterator

import pytest

from ingestor.chroma.client import Client
from ingestor.chroma.server import ChromaServer
from tests.chroma.guarding import TOKEN, WRITER
from tests.serving import HOST, client_of, free_port, server


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """With a token of readers, and one that may write."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = [(TOKEN, "read"), (WRITER, "write")]
    place = folder / "db", HOST, free_port(), folder / "log"
    with ChromaServer(*place, tokens=tokens, names=["ingestor"]) as running:
        yield running


@pytest.fixture(scope="session")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """Without a token."""
    with server(tmp_path_factory.mktemp("open")) as running:
        yield running


@pytest.fixture(scope="session")
def served(open_server: ChromaServer) -> Iterator[Client]:
    with client_of(open_server) as client:
        yield client
