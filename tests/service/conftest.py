"""A daemon with a real Chroma and a real lexical file, served over HTTP, for all tests of a process."""

from collections.abc import Iterator

import httpx
import pytest

from ingestor.chroma.client import Client
from ingestor.core.entries import Edition, EditionName
from ingestor.embedders.hashing import PLUGIN
from ingestor.model import CollectionName
from ingestor.state.editions import Editions
from tests.chroma.opening import opened
from tests.search.test_search import TEXTS, records
from tests.service.world import RECIPE, Daemon, holding, note_documents, served
from tests.serving import client_of, server

MODEL = PLUGIN.build(PLUGIN.options(dimensions=64))


@pytest.fixture(scope="session")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with server(tmp_path_factory.mktemp("chroma")) as running, client_of(running) as client:
        yield client


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory, chroma: Client) -> Iterator[Daemon]:
    with holding(records(), tmp_path_factory.mktemp("daemon"), MODEL, chroma) as found:
        note_documents(found, TEXTS)
        yield found


@pytest.fixture(scope="session")
def client(daemon: Daemon) -> Iterator[httpx.Client]:
    with served(daemon) as client:
        yield client


@pytest.fixture
def mail(daemon: Daemon, chroma: Client) -> Iterator[None]:
    """A second collection, whose words are not indexed yet."""
    index = opened(chroma, "mail", dimensions=64)
    index.upsert(list(records()))
    daemon.collections[(index.uuid,)] = index
    name = EditionName("mail")
    edition = Edition(name, CollectionName("mail"), uuids=(index.uuid,), embedder=RECIPE)
    Editions(daemon.journal).note(edition)
    yield
    with daemon.journal.transaction() as db:
        db.execute("DELETE FROM collections WHERE name = 'mail'")
    del daemon.collections[(index.uuid,)]
