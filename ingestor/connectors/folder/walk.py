"""List the files beneath a folder that the options select.

Listing a subfolder gives the same files as listing the whole folder. At most one component of a path may be a
link to a directory, and that directory must not contain the link. So there are no loops, and a few links to
each other cannot make millions of paths.
"""

import errno
import logging
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from ingestor.connectors.folder.beneath import directory, real_path, status
from ingestor.connectors.shared.gitignore import IgnoreRules, rules_of_file, selects
from ingestor.connectors.shared.keys import escape

Symlinks = Literal["skip", "inside", "follow"]
ListedFile = tuple[str, os.stat_result]  # key; status of the file itself, also if a link leads to it
Ignores = tuple[tuple[int, IgnoreRules], ...]  # deepest first, each with the length of its directory's path
_NO_FILE = "neither a file nor a folder"
_IGNORE_FILE = 256 * 1024  # bytes
_IN_FORCE = 10_000  # patterns of all ignore files that apply to one name
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_log = logging.getLogger(__name__)
_NAMED = 10  # excluded files that are logged for one folder and reason
_named = Counter[tuple[str, str]]()  # files logged so far, by folder and reason


@dataclass(frozen=True, slots=True)
class Selection:
    """Rules that decide which files are documents.

    A pattern of ``exclude`` that matches a file decides before the ignore files, even if it is negated.
    """

    include: IgnoreRules
    exclude: IgnoreRules
    ignore_files: tuple[str, ...]
    symlinks: Symlinks

    def takes(self, names: Sequence[str]) -> bool:
        """Return whether ``include`` and ``exclude`` select a file. ``names``: components of its path."""
        return selects(self.include, self.exclude, names)


@dataclass(frozen=True, slots=True)
class _Directory:
    """A directory that a walk still has to list."""

    path: str  # below the folder; "" or ending in a slash
    key: str  # the path as the beginning of keys
    real: str  # the path without links, see beneath.py
    included: bool  # whether the directory as a whole matches ``include``
    linked: bool  # whether the path has a link to a directory
    ignores: Ignores


class Walk:
    """A walk through a folder, which lists files.

    ``unknown``: keys of directories and files that could not be listed, with reasons.
    """

    def __init__(
        self, root: int, path: str, selection: Selection, entered: Callable[[str, int], None] | None = None
    ) -> None:
        """Prepare a walk.

        ``root``: descriptor of the folder. ``path``: path of the folder, without symbolic links. ``entered``:
        called with path and descriptor of each directory, before the directory is listed.
        """
        self.unknown: dict[str, str] = {}
        self._root = root
        self._path = path
        self._selection = selection
        self._entered = entered

    def below(self, names: Sequence[str]) -> Iterator[ListedFile]:
        """Yield the files at and below a path, in no particular order. ``names``: components of the path."""
        pending = [_Directory("", "", "", included=False, linked=False, ignores=())]
        while pending:
            folder = pending.pop()
            way = names[folder.path.count("/") :]
            try:
                with directory(self._root, folder.real) as descriptor:
                    if self._entered and len(way) == 0:
                        self._entered(folder.path, descriptor)
                    yield from self._list(folder, descriptor, way, pending)
            except FileNotFoundError:
                continue  # removed since its parent was listed
            except OSError as error:
                self._miss(folder.key, error)

    def _list(
        self, folder: _Directory, descriptor: int, way: Sequence[str], pending: list[_Directory]
    ) -> Iterator[ListedFile]:
        ignores = self._ignores(folder, descriptor)
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if way and entry.name != way[0]:
                    continue
                try:
                    listed = self._entry(folder, entry, ignores)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._miss(folder.key + escape(entry.name), error)
                    continue
                if isinstance(listed, _Directory):
                    pending.append(listed)
                elif listed and len(way) < 2:
                    yield listed

    def _entry(
        self, folder: _Directory, entry: os.DirEntry[str], ignores: Ignores
    ) -> ListedFile | _Directory | None:
        name = entry.name
        is_directory = entry.is_dir(follow_symlinks=False)
        if self._is_excluded(folder.path + name, name, ignores, is_directory):
            return None
        if is_directory:
            real = f"{folder.real}/{name}" if folder.real else name
            return self._subfolder(folder, name, real, ignores, folder.linked)
        if entry.is_file(follow_symlinks=False):
            return self._file(folder, name, entry.stat(follow_symlinks=False))
        if entry.is_symlink():
            return self._link(folder, name, ignores) if self._selection.symlinks != "skip" else None
        if self._is_included(folder, name, is_directory=False):
            _log_left_out(self._path, f"{self._path}/{folder.path}{name}", _NO_FILE)
        return None

    def _subfolder(
        self, folder: _Directory, name: str, real: str, ignores: Ignores, linked: bool
    ) -> _Directory:
        included = self._is_included(folder, name, is_directory=True)
        return _Directory(
            f"{folder.path}{name}/", f"{folder.key}{escape(name)}/", real, included, linked, ignores
        )

    def _file(self, folder: _Directory, name: str, facts: os.stat_result) -> ListedFile | None:
        if not self._is_included(folder, name, is_directory=False):
            return None
        return folder.key + escape(name), facts

    def _link(self, folder: _Directory, name: str, ignores: Ignores) -> ListedFile | _Directory | None:
        parent = Path(self._path, folder.real)
        target = self._target(str(parent / name))
        if target is None:
            return None
        real, facts = target
        if stat.S_ISREG(facts.st_mode):
            return self._file(folder, name, facts)
        if not stat.S_ISDIR(facts.st_mode):
            _log_left_out(self._path, str(parent / name), _NO_FILE)
            return None
        if self._is_excluded(folder.path + name, name, ignores, True):
            return None
        if folder.linked or parent.is_relative_to(Path(self._path, real)):
            return None
        return self._subfolder(folder, name, real, ignores, linked=True)

    def _target(self, link: str) -> tuple[str, os.stat_result] | None:
        """Return the real path and the status of a link's target; None if the link must not be followed."""
        real = real_path(self._path, link)
        if real.startswith("/") and self._selection.symlinks != "follow":
            _log_left_out(self._path, link, "a link that leads out of the folder")
            return None
        try:
            return real, status(self._root, real)
        except OSError as error:
            if error.errno not in _NOWHERE:
                raise
            _log_left_out(self._path, link, "a link that leads nowhere")
            return None

    def _is_included(self, folder: _Directory, name: str, is_directory: bool) -> bool:
        include = self._selection.include
        if folder.included and not include.negates:
            return True
        verdict = include.verdict(folder.path + name, name, directory=is_directory)
        return folder.included if verdict is None else verdict

    def _is_excluded(self, path: str, name: str, ignores: Ignores, is_directory: bool) -> bool:
        verdict = self._selection.exclude.verdict(path, name, directory=is_directory)
        for start, rules in ignores:
            if verdict is not None:
                break
            verdict = rules.verdict(path[start:], name, directory=is_directory)
        return bool(verdict)

    def _ignores(self, folder: _Directory, descriptor: int) -> Ignores:
        """Return the rules that apply in a directory.

        The rules of its own ignore files come first, then those of the directories above.
        """
        names = reversed(self._selection.ignore_files)
        rules_here = [
            rules for name in names if (rules := _rules(name, descriptor, f"{self._path}/{folder.path}"))
        ]
        ignores = (*((len(folder.path), rules) for rules in rules_here), *folder.ignores)
        if rules_here and sum(len(rules) for _, rules in ignores) > _IN_FORCE:
            raise _too_large(f"the ignore files here and above have more than {_IN_FORCE:,} patterns")
        return ignores

    def _miss(self, key: str, error: OSError) -> None:
        self.unknown.setdefault(key.rstrip("/"), error.strerror or str(error))


@lru_cache(maxsize=4096)
def _log_left_out(folder: str, path: str, why: str) -> None:
    """Log that a file is left out.

    The first ten files of a folder with the same reason are logged as info, others for debugging only.
    """
    _named[folder, why] += 1
    level = logging.INFO if _named[folder, why] <= _NAMED else logging.DEBUG
    others = "; -v logs others" if _named[folder, why] == _NAMED else ""
    _log.log(level, "file left out (%s%s): %s", why, others, path.replace("\n", "\\n"))


@lru_cache(maxsize=4096)
def _warn_of_link(path: str) -> None:
    _log.warning("ignore file %s is a link: skipped, because links to ignore files are not followed", path)


def _too_large(why: str) -> OSError:
    return OSError(errno.EFBIG, why)


def _rules(name: str, descriptor: int, where: str) -> IgnoreRules | None:
    """Return the rules of an ignore file; None if there is no such file, or if it is empty or a link.

    Raises OSError if the file is unreadable or too large. The caller must then not list its directory,
    because files that the rules exclude would become documents.
    """
    try:
        data = _read(name, descriptor)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return _warn_of_link(where + name)  # as git does
    try:
        return rules_of_file(os.fsdecode(data)) if data else None
    except ValueError as error:
        raise _too_large(f"the ignore file {name} {error}") from error


def _read(name: str, descriptor: int) -> bytes | None:
    """Return the bytes of an ignore file; None if there is no regular file of that name.

    Raises OSError, with errno ELOOP for a link.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        opened = os.open(name, flags, dir_fd=descriptor)
    except FileNotFoundError:
        return None
    with open(opened, "rb") as stream:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        data = stream.read(_IGNORE_FILE + 1)
    if len(data) > _IGNORE_FILE:
        raise _too_large(f"the ignore file {name} has more than {_IGNORE_FILE:,} bytes")
    return data
