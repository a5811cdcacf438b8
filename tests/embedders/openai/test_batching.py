"""Which texts are sent together, and how the bad one of many is found."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.embedders.openai import TextsRefused, batches, resolve
from ingestor.model import Vector
from ingestor.ports import BadDocument, NeedsHuman, Transient


@pytest.mark.parametrize(
    ("tokens", "texts", "most", "expected"),
    [
        ([], 2, 10, []),
        ([5], 2, 10, [[0]]),
        ([5, 5, 5], 2, 10, [[0, 1], [2]]),
        ([5, 6, 5], 9, 10, [[0], [1], [2]]),
        ([1, 99, 1, 1], 9, 10, [[0], [1], [2, 3]]),
        ([0, 0, 0], 2, 1, [[0, 1], [2]]),
    ],
)
def test_batches(tokens: list[int], texts: int, most: int, expected: list[list[int]]) -> None:
    assert [list(batch) for batch in batches(tokens, texts, most)] == expected


@given(st.lists(st.integers(0, 30)), st.integers(1, 5), st.integers(1, 40))
def test_every_text_is_in_one_batch_and_no_batch_is_too_large(
    tokens: list[int], texts: int, most: int
) -> None:
    made = [list(batch) for batch in batches(tokens, texts, most)]
    assert [position for batch in made for position in batch] == list(range(len(tokens)))
    for batch in made:
        assert len(batch) <= texts
        assert len(batch) == 1 or sum(tokens[position] for position in batch) <= most


class Server:
    """Takes batches of so many texts, without the bad ones. ``dead``: what it does to all requests."""

    def __init__(
        self,
        bad: Sequence[int] = (),
        zero: Sequence[int] = (),
        most: int = 99,
        dead: Exception | None = None,
        picky: bool = False,
    ) -> None:
        self.bad, self.zero, self.most, self.dead, self.picky = bad, zero, most, dead, picky
        self.sent: list[list[int]] = []
        self.checks = 0

    def send(self, batch: Sequence[int]) -> list[Vector | None]:
        self.sent.append(list(batch))
        if self.dead:
            raise self.dead
        if self.picky or len(batch) > self.most or set(batch) & set(self.bad):
            raise TextsRefused("refused the request (400): no")
        return [None if position in self.zero else np.float32([position]) for position in batch]

    def check(self, reason: str) -> None:
        self.checks += 1
        if self.picky:
            raise NeedsHuman(reason)


def test_sound_batch_is_one_request() -> None:
    server = Server()
    assert resolve(range(4), server.send, server.check) == {n: np.float32([n]) for n in range(4)}
    assert (server.sent, server.checks) == ([[0, 1, 2, 3]], 0)


@pytest.mark.parametrize("bad", [[0], [5], [7], [2, 3], list(range(8))])
@pytest.mark.parametrize("kind", ["bad", "zero"])
def test_only_the_bad_texts_are_bad(bad: list[int], kind: str) -> None:
    server = Server(**{kind: bad})
    found = resolve(range(8), server.send, server.check)
    assert {n for n, row in found.items() if isinstance(row, BadDocument)} == set(bad)
    assert sorted(found) == list(range(8))


def test_text_is_found_by_halving() -> None:
    server = Server(bad=[5])
    resolve(range(8), server.send, server.check)
    assert server.sent == [[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [4], [5], [6, 7]]


def test_batch_that_is_too_large_is_halved_and_nothing_is_bad() -> None:
    server = Server(most=2)
    assert all(isinstance(row, np.ndarray) for row in resolve(range(8), server.send, server.check).values())
    assert len(server.sent) == 7


@pytest.mark.parametrize("error", [Transient("away"), NeedsHuman("no such model")])
def test_error_that_is_about_no_text_splits_nothing(error: Exception) -> None:
    server = Server(dead=error)
    assert resolve(range(8), server.send, server.check) == dict.fromkeys(range(8), error)
    assert len(server.sent) == 1


def test_server_that_refuses_everything_says_nothing_about_a_text() -> None:
    server = Server(picky=True)
    found = resolve(range(8), server.send, server.check)
    assert {type(error) for error in found.values()} == {NeedsHuman}
    assert (len(server.sent), server.checks) == (1, 1)


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)), st.integers(1, 21))
def test_bad_texts_are_found_and_no_others(bad: set[int], zero: set[int], most: int) -> None:
    server = Server(bad=sorted(bad), zero=sorted(zero), most=most)
    found = resolve(range(21), server.send, server.check)
    assert {n for n, row in found.items() if isinstance(row, BadDocument)} == bad | zero
    assert all(row == np.float32([n]) for n, row in found.items() if isinstance(row, np.ndarray))
