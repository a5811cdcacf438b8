"""No regular expression of the project takes more than linear time, whatever it is given.

While one is matched nothing else runs in the process, signal handlers included. The bound is hundreds of
times what the slowest needs: it tells quadratic from linear, not slow machines from fast ones.
"""

import pytest

from tests.bounded import printed

LENGTH = 10_000
SECONDS = 0.3  # of processor time, for one text of that length


@pytest.mark.slow
def test_no_expression_takes_more_than_linear_time() -> None:
    program = f"""
        from tests.patterns import slow
        print("\\n".join(slow({LENGTH}, {SECONDS})))
        """
    assert printed(program, seconds=300).strip() == ""


SLOW = [
    (r"(?:.*a){5}b", "match"),
    (r"(a|aa)+b", "match"),
    (r":([\w:.+-]+):`", "finditer"),
    (r"\s*\{[#.:][^{}]*\}$", "finditer"),
    (rb"FLAGS \((?:[^)]* )?\\Deleted", "finditer"),
]


@pytest.mark.slow
def test_slow_expressions_are_detected() -> None:
    """In a process of its own: a signal that is heard late ends whatever runs then."""
    program = f"""
        import re
        from tests.patterns import stuck
        for expression, method in {SLOW!r}:
            print(stuck(re.compile(expression), method, {6 * LENGTH}, {SECONDS}) is not None)
        """
    assert printed(program).split() == ["True"] * len(SLOW)
