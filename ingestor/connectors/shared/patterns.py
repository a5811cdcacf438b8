"""Options of every connector of files: .gitignore patterns that select files, and a size limit. Pure."""

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from ingestor.connectors.shared.gitignore import IgnoreRules, rules, selects, too_long
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


def check_size(item: Item, size: int | None, most: int, remedy: str = "raise it") -> None:
    """Raise BadDocument if there are more than ``most`` bytes. ``size``: None if not known yet."""
    if size is not None and size > most:
        raise BadDocument(f"{item.uri} has {size:,} bytes; max_size is {most:,}: {remedy}")


OR_EXCLUDE = "raise it, or exclude the file"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Selection of the paths that are documents, for a source without ignore files and links."""

    include: IgnoreRules
    exclude: IgnoreRules

    def takes(self, path: str) -> bool:
        return selects(self.include, self.exclude, path.split("/"))


def choose(include: list[str], exclude: list[str], *, hidden: bool) -> Chosen:
    return Chosen(rules(include), rules([*(() if hidden else (".*",)), *NOT_DOCUMENTS, *exclude]))
