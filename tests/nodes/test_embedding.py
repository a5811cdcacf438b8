"""Messages, and texts that processes on nodes embed: order, errors, losses; a process is a function."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from ingestor.core.errors import Stopped
from ingestor.nodes.deaths import Cause, ProcessLost
from ingestor.nodes.fleet import SLICE, OnNodesEmbedder
from ingestor.nodes.messages import LogLine, WantedVectors, failure_of, pack, unpack
from ingestor.ports import BadDocument, NeedsHuman, Stop, Transient
from tests.nodes import shop

TEXTS = [f"text {number} " + "x" * (number % 7) for number in range(3 * SLICE)]
BAD = TEXTS[100]


def embedder(on_node: Callable[[list[str]], object]) -> OnNodesEmbedder:
    own, _ = shop.embedder_of(b"")
    return OnNodesEmbedder(own, lambda packed: pack(on_node(unpack(packed))), 2)


def vectors_of(texts: list[str]) -> object:
    return shop.embedder_of(b"")[0].embed(texts)


def test_vectors_of_slices_are_those_of_one_call() -> None:
    found = embedder(vectors_of).embed_each(TEXTS, Stop()).vectors
    assert np.array_equal(np.asarray(found), vectors_of(TEXTS))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["its model cannot take it", "it ends every process"])
def test_text_that_fails_alone_leaves_vectors_of_others(kind: str) -> None:
    def on_node(texts: list[str]) -> object:
        if BAD not in texts:
            return vectors_of(texts)
        if "model" in kind:
            return failure_of(BadDocument(kind))
        raise ProcessLost("crash", "the process crashed", "a")

    found = embedder(on_node).embed_each(TEXTS, Stop()).vectors
    bad = [text for text, vector in zip(TEXTS, found, strict=True) if isinstance(vector, Exception)]
    assert bad == [BAD]
    assert isinstance(found[100], BadDocument)


@pytest.mark.parametrize(("cause", "calls"), [("crash", 2), ("node", 2), ("start", 2), ("memory", 1)])
def test_part_of_a_lost_process_goes_to_another(cause: Cause, calls: int) -> None:
    """Want of memory alone makes its documents wait: another process would take as much."""
    seen = Counter[str]()

    def on_node(texts: list[str]) -> object:
        seen[texts[0]] += 1
        if seen[texts[0]] == 1:
            raise ProcessLost(cause, "gone", "a")
        return vectors_of(texts)

    (found,) = embedder(on_node).embed_each(["a"], Stop()).vectors
    assert seen == {"a": calls}
    assert isinstance(found, Transient) == (calls == 1)


def test_part_that_outlives_three_lost_nodes_waits() -> None:
    def on_node(texts: list[str]) -> object:
        raise ProcessLost("node", "the node was lost", "a")

    found = embedder(on_node).embed_each(["a", "b"], Stop()).vectors
    assert [str(each) for each in found] == [
        "processes on nodes ended, will be retried (a: the node was lost, 3 times)"
    ] * 2


@pytest.mark.parametrize("error", [NeedsHuman("node a has no plugin `wiki`"), Transient("no room")])
def test_error_of_starting_is_that_of_every_text(error: Exception) -> None:
    def on_node(texts: list[str]) -> object:
        raise error

    assert embedder(on_node).embed_each(["a", "b"], Stop()).vectors == [error, error]


def test_stop_ends_the_wait_for_parts_that_have_not_begun() -> None:
    stop = Stop()

    def on_node(texts: list[str]) -> object:
        stop.set()
        return vectors_of(texts)

    with pytest.raises(Stopped):
        embedder(on_node).embed_each(TEXTS * 4, stop)


def test_answers_return_as_they_were_sent() -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(unpack(pack(vectors)), vectors)
    assert unpack(pack(WantedVectors(["a", "\ud800"]))) == WantedVectors(["a", "\ud800"])
    told = unpack(pack(failure_of(BadDocument("torn"), [LogLine(20, "x")])))
    assert isinstance(told.error, BadDocument)
    assert told.lines == [LogLine(20, "x")]
    foreign = type("Foreign", (Exception,), {})("of a plugin")
    assert str(failure_of(foreign).error) == "Foreign: of a plugin"
    later = failure_of(type("Busy", (Transient,), {})("come again")).error
    assert (type(later), str(later)) == (Transient, "come again"), "what follows is that of the known class"
