"""Errors without Ray or without a cluster, and what a process learns of a config."""

import socket
import sys

import pytest

from ingestor.app.parts import Parts
from ingestor.app.wiring import embedder_of, embedder_setup, tools_of, tools_setup
from ingestor.config.workers import Workers
from ingestor.core.entries import EditionName
from ingestor.model import CollectionName
from ingestor.nodes.cluster import connect, require_answer
from ingestor.nodes.messages import find_plugin
from ingestor.nodes.setup import MODEL, recipes_of, require_same
from ingestor.pipeline.listing import Source
from ingestor.ports import NeedsHuman
from tests.config.written import load_text, source

OPENAI = 'openai, base_url: "http://127.0.0.1:9/v1", model: m, dimensions: 8, api_key: "${S}"'
SECRET = "wE4kn3ss-of-a-key"
CONFIG = """
chroma: {host: db, token: "${S}"}
embedding: {kind: EMBEDDER}
chunking: {strategy: STRATEGY}
http: {token: "${S}"}
search: {rerank: {url: "http://127.0.0.1:9", api_key: "${S}"}}
"""


def parts(embedder: str = "hashing", strategy: str = "sentence") -> Parts:
    text = CONFIG.replace("EMBEDDER", embedder).replace("STRATEGY", strategy)
    return Parts(load_text(text + source(), {"S": SECRET}))


def source_of(here: Parts) -> Source:
    name, edition = CollectionName("abc"), EditionName("abc")
    [found] = here.sources(name, edition, lambda texts: here.embedder.embed(texts))
    return found


@pytest.mark.parametrize("embedder", ["hashing", OPENAI])
def test_process_builds_the_same_tools_without_secrets(embedder: str) -> None:
    here = parts(embedder)
    found = source_of(here)
    setup = tools_setup(here, found.feed, found.tools)
    assert setup is not None
    assert recipes_of(tools_of(setup.packed)) == recipes_of(found.tools) == setup.recipes
    assert embedder_of(embedder_setup(here).packed)[1] == embedder_setup(here).recipes[MODEL]
    for packed in (setup.packed, embedder_setup(here).packed):
        assert SECRET.encode() not in packed


def test_strategy_with_a_language_model_runs_in_the_daemon() -> None:
    here = parts(strategy="auto")
    found = source_of(here)
    assert tools_setup(here, found.feed, found.tools) is None


def test_missing_plugin_is_named() -> None:
    with pytest.raises(NeedsHuman, match="has no usable plugin 'wiki' of the group parsers"):
        find_plugin("parsers", "wiki")


def test_differences_are_named_with_both_versions() -> None:
    require_same({"a": "1"}, {"a": "1"}, "x")
    with pytest.raises(NeedsHuman, match=r"package a \(2 there, 1 here\), b \(none there, 3 here\): install"):
        require_same({"package a": "1", "b": "3"}, {"package a": "2"}, "install")


def test_missing_package_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(NeedsHuman, match=r"pip install 'chroma-ingestor\[ray\]'"),
        connect(Workers(kind="ray")),
    ):
        pass


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_address_where_nothing_listens_is_an_error_at_once(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"{scheme}127.0.0.1:{server.getsockname()[1]}"
        require_answer(address)
    with pytest.raises(NeedsHuman, match=f"no Ray cluster answers at {address} .Connection refused"):
        require_answer(address)


@pytest.mark.parametrize("address", ["auto", "local"])
def test_addresses_that_name_no_place_are_left_to_ray(address: str) -> None:
    require_answer(address)
