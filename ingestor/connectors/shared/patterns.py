"""Options that connectors of files share: gitignore patterns that select files, and a size limit. Pure."""

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, Field

from ingestor.connectors.shared.gitignore import rules, selects, too_long
from ingestor.model import Item
from ingestor.ports import BadDocument
from ingestor.units import Size

# Version control, and temporary files of editors, office programs, browsers and desktops.
NOT_DOCUMENTS = (
    *(".git", ".hg", ".svn", ".DS_Store", "Thumbs.db", "desktop.ini", "lost+found/", "$RECYCLE.BIN/"),
    *("*~", "*.tmp", ".*.sw[a-p]", "*.swp", ".#*", "\\#*#", "~$*", ".~lock.*", "*___jb_???___"),
    *("*.part", "*.crdownload", ".goutputstream-*", ".nfs*", ".fuse_hidden*"),
)


def _pattern(pattern: str) -> str:
    if re.fullmatch(r"\s*", pattern):
        raise ValueError("must not be empty")
    if wrong := too_long(pattern):
        raise ValueError(wrong)
    return pattern


Pattern = Annotated[str, AfterValidator(_pattern)]
Include = Annotated[
    list[Pattern], Field(default=["**/*"], description="files to list, as gitignore patterns")
]
Exclude = Annotated[
    list[Pattern],
    Field(
        default=[],
        description="files and folders to leave out; `!pattern` includes hidden or temporary files",
    ),
]
Hidden = Annotated[bool, Field(default=False, description="list names that start with a dot")]
MaxSize = Annotated[Size, Field(default=50 * 10**6, description="larger files are reported, not read")]


def check_size(item: Item, size: int | None, most: int, remedy: str = "raise `max_size`") -> None:
    """Raise BadDocument if a document has more than ``most`` bytes.

    ``size``: size of the document; None if unknown. ``remedy``: what the message advises to do about
    ``max_size``.
    """
    if size is not None and size > most:
        raise BadDocument(f"{size:,} bytes are more than max_size ({most:,}): {remedy}")


OR_EXCLUDE = "raise `max_size`, or exclude the file"


def choose(include: list[str], exclude: list[str], *, hidden: bool) -> Callable[[str], bool]:
    """Return a function that tests whether these options select a path.

    Sources without ignore files and links use this function. ``hidden``: whether names that start with a dot
    are selected.
    """
    included, excluded = rules(include), rules([*(() if hidden else (".*",)), *NOT_DOCUMENTS, *exclude])
    return lambda path: selects(included, excluded, path.split("/"))
