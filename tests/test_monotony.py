"""A strategy or parser that is given a hundred thousand times the same ends soon, whatever that is."""

import pytest

from tests.bounded import printed
from tests.monotony import readers

LENGTH = 100_000  # characters; the slowest takes 25 seconds for a million
SECONDS = 15  # of processor time for one text


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(readers()))
def test_no_text_takes_long(kind: str) -> None:
    program = f"""
        from tests.monotony import slow
        print("\\n".join(slow({LENGTH}, {SECONDS}, [{kind!r}])))
        """
    assert printed(program, seconds=200).strip() == ""
