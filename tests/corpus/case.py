"""What a hostile input is: how it gets into a folder, and whether it must be refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

Make = Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Case:
    """``put`` writes the input into an empty folder. ``refused``: `status` must name it.

    Where that is False, the input may be indexed or refused; if it is refused, `status` must name it, too.
    """

    name: str
    put: Callable[[Path], None]
    refused: bool = False
    restless: bool = False  # it goes on changing, so it may be due at any time
    listed: bool = False  # `ls` must show it, or `status` say that it could not be listed


def files(made: Mapping[str, Make]) -> list[Case]:
    """Return a case for each file of that name and content. A ``!`` before the name: it must be refused."""
    return [
        Case(name.lstrip("!"), _writer(name.lstrip("!"), make), name.startswith("!"), listed=True)
        for name, make in made.items()
    ]


def _writer(name: str, make: Make) -> Callable[[Path], None]:
    def put(folder: Path) -> None:
        (folder / name).write_bytes(make())

    return put
