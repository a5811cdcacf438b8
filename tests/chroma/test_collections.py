"""Renaming collections of a real Chroma, over HTTP and in this process."""

import pytest
from chromadb.utils.embedding_functions import known_embedding_functions

from ingestor.chroma.client import Client, embedded
from ingestor.chroma.collections import (
    OUR_FUNCTIONS,
    Ownership,
    evict_collection,
    list_names,
    open_collection,
    rename_collection,
)
from tests.chroma.laws import DIMENSIONS, many
from tests.serving import client_of, server


@pytest.fixture(scope="module", params=["served", "embedded"])
def client(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "embedded":
        with embedded(folder) as found:
            yield found
        return
    with server(folder) as running, client_of(running) as found:
        yield found


def make(client: Client, name: str):
    return open_collection(client, name, model=None, dimensions=DIMENSIONS, owner=Ownership("ours"))


def test_a_handle_reads_on_after_a_rename_and_the_name_is_free(client: Client) -> None:
    index = make(client, "first")
    index.upsert(many(3))
    assert rename_collection(client, index.uuid, "first--1")
    assert list_names(client)[index.uuid] == "first--1"
    assert index.count() == 3
    again = make(client, "first")
    assert (again.uuid != index.uuid, again.count()) == (True, 0)


def test_a_taken_name_is_not_taken_over(client: Client) -> None:
    one, other = make(client, "one"), make(client, "other")
    assert not rename_collection(client, one.uuid, "other")
    assert {list_names(client)[one.uuid], list_names(client)[other.uuid]} == {"one", "other"}
    assert rename_collection(client, one.uuid, "one")  # its own


def test_an_empty_impostor_goes_and_one_with_records_is_put_aside(client: Client) -> None:
    client.api.create_collection("impostor")
    assert "empty" in evict_collection(client, "impostor")
    assert "impostor" not in list_names(client).values()
    full = make(client, "impostor")
    full.upsert(many(2))
    aside = evict_collection(client, "impostor").removeprefix("kept, as ")
    assert list_names(client)[full.uuid] == aside
    assert full.count() == 2


def test_the_functions_that_we_name_for_readers_are_known_to_chroma() -> None:
    assert set(known_embedding_functions) >= OUR_FUNCTIONS
