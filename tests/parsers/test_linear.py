"""Readers that run in the daemon's own process take linear time on repeated openings of every markup.

While an expression is matched, nothing else of the daemon runs. Times are processor time of this process, and
are compared with each other only.
"""

import time
from contextlib import suppress

import pytest

from ingestor.model import Blob
from ingestor.ports import BadDocument
from ingestor.registry import find, kinds
from tests.examples import is_thorough

LARGEST = 100_000 if is_thorough() else 25_000  # bytes; up to 100,000 are read in the daemon's process
OPENINGS = [  # separated by two spaces; \n is a line end
    opening.replace("\\n", "\n")
    for opening in r"""
\title[  \author [\n  \section[  \title{  \begin{a}  \begin{minted}[  \label{a}[  \[  [  ![  [a](
<a b  <!--  <  `  ``a  ```\n  *a  _a_  **  > a  - a  [^a]: b  |a  ::  .. a:: b  :a:  |a|_  ..\n
a\n=\n  ====\n  [source]\n  image::  <<a  {a}  +  #+begin_a\n  [[  * a\n  $$  \(  {"a":  "  a: b
&a b  *a: b  a.b=  [a]\n  1,  \n\n  ---\n  00:00 --> a  <![CDATA[  <?  &  \
""".replace("\n", "  ").split("  ")
    if opening
]
IN_THE_DAEMON = [
    kind for kind in kinds("parsers") if getattr(find("parsers", kind).build, "isolated", True) is not True
]


def processor_seconds(kind: str, text: str) -> float:
    plugin = find("parsers", kind)
    parser, begun = plugin.build(plugin.options()), time.process_time()
    with suppress(BadDocument):
        parser.parse(Blob(text.encode(), f"a.{kind}"))
    return time.process_time() - begun


def is_linear(kind: str, opening: str) -> bool:
    """Whether four times the text takes less than nine times the time; sixteen would be quadratic."""
    whole, quarter = (opening * (size // len(opening)) for size in (LARGEST, LARGEST // 4))
    for _ in range(3):
        long = processor_seconds(kind, whole)
        if long < 0.1 or long < 9 * processor_seconds(kind, quarter):  # less is of no consequence
            return True
    return False


@pytest.mark.parametrize(
    "kind",
    [kind if kind == "latex" else pytest.param(kind, marks=pytest.mark.slow) for kind in IN_THE_DAEMON],
)
def test_repeated_openings_are_read_in_linear_time(kind: str) -> None:
    assert [opening for opening in OPENINGS if not is_linear(kind, opening)] == []
