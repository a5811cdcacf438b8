"""A server with a token, and one without, for all tests of the guard."""

from collections.abc import Iterator

import pytest

from ingestor.chroma.server import ChromaServer
from tests.chroma.guarding import TOKEN
from tests.serving import HOST, free_port, server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """With a token."""
    folder = tmp_path_factory.mktemp("guarded")
    with ChromaServer(
        folder / "db", HOST, free_port(), folder / "log", token=TOKEN, names=["ingestor"]
    ) as running:
        yield running


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """Without a token."""
    with server(tmp_path_factory.mktemp("open")) as running:
        yield running
