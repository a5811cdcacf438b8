"""Connector ``folder``: every file in a folder is a document, if the options match it.

A key is the path beneath the folder, with "/" between its parts (shared/keys.py escapes odd names). A version
is device, inode, size, mtime and ctime, so any write, replacement, ``touch`` or ``chmod`` changes it. The
version of a sidecar file follows. A file is read through one descriptor, without following links, and is
rejected if it changes meanwhile. A steadily growing file of lines is read up to its last complete line. A
file in an unreadable subfolder is never reported as removed: a PartialScan ends the scan and names the
subfolder. A missing or unreadable folder raises NeedsHuman.
"""

import errno
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from pathlib import Path, PurePath
from typing import Annotated, Literal, NamedTuple

import yaml
from pydantic import BeforeValidator, Field

from ingestor.connectors.folder.beneath import file, identity, real_path
from ingestor.connectors.folder.inotify import Entered
from ingestor.connectors.folder.walk import Selection, Symlinks, Walk
from ingestor.connectors.shared.gitignore import rules
from ingestor.connectors.shared.keys import cover, escape, key_of, names_of
from ingestor.connectors.shared.patterns import NOT_DOCUMENTS, OR_EXCLUDE, Pattern, check_size
from ingestor.connectors.shared.typed import scalar, text
from ingestor.model import Blob, Hint, Item, Scalar
from ingestor.ports import NeedsHuman, PartialScan, Stale, Stop, Transient
from ingestor.registry import Options, Plugin, added, require_match, tuning
from ingestor.units import Duration, Size

log = logging.getLogger(__name__)

EVERY = 10.0  # seconds between two readings of a steadily growing file
OF_LINES = {"", ".csv", ".err", ".jsonl", ".log", ".md", ".ndjson", ".out", ".rst", ".text", ".tsv", ".txt"}
_LARGEST_SIDECAR = 64 * 1024  # bytes
_NAMED = 10  # paths that an error message lists
_UNKNOWN = 100  # subtrees named by one PartialScan
_TICK = 100_000_000  # ns: a second write so soon after the first may leave the same timestamps
_COARSE_TICK = 2_000_000_000  # ns, on file systems that keep whole seconds

_Values = tuple[tuple[str, Scalar | tuple[str, ...]], ...]


def _require_path(path: object) -> object:
    if path == "":  # would mean the current folder
        raise ValueError("must name a folder")
    return path


_FileName = Annotated[str, require_match(r"[^/]+", "must be a file name without a path, such as .gitignore")]
_Ending = Annotated[str, require_match(r"\.[\w.-]{1,40}", "must be an ending such as .meta.yaml")]


def _off(value: object) -> object:
    return "off" if value is False else value  # YAML reads a bare off as false


Watching = Annotated[Literal["auto", "events", "poll", "off"], BeforeValidator(_off)]


class FolderOptions(Options):
    """Options of ``folder``. Patterns are written as in .gitignore; the last matching pattern decides.

    A pattern that starts with ``!`` cancels the match of an earlier pattern. ``dir/`` stands for a whole
    directory. A pattern with a slash inside is relative to the folder.
    """

    path: Annotated[Path, BeforeValidator(_require_path)] = Field(description="the folder")
    include: list[Pattern] = Field(default=["**/*"], description="files to list, as gitignore patterns")
    exclude: list[Pattern] = Field(
        default=[],
        description="files and folders to leave out; `!pattern` includes hidden, temporary or ignored files",
    )
    ignore_files: list[_FileName] = Field(
        default=[".gitignore", ".ingestorignore"],
        description="names of files with gitignore patterns for their own folder and below; later names "
        "override. Links are skipped. A file over 256 KiB is an error: its folder is not "
        "listed, and records stay",
    )
    max_size: Size = Field(default=50 * 10**6, description="larger files are reported, not read")
    symlinks: Symlinks = Field(
        default="inside",
        description="symbolic links to follow: none (`skip`), those into the folder (`inside`), or all "
        "(`follow`). A target is a document of its own. A link to a folder is not followed "
        "below another link, nor to a folder above it",
    )
    hidden: bool = Field(default=False, description="list names that start with a dot")
    sidecar: _Ending | None = added(
        None,
        before=None,
        description="ending of files that hold metadata of the file beside them, in YAML or JSON: with "
        "`.meta.yaml`, `a.pdf.meta.yaml` describes `a.pdf`. Such files are no documents",
    )
    watch: Watching = tuning(
        "auto",
        description="how changes are noticed between full scans: file system `events`, `poll`, or `off`; "
        "`auto` polls network file systems, which send no events",
    )
    settle: Duration = tuning(1.5, ge=0, description="quiet time after a change before files are read")
    poll: Duration = tuning(30.0, gt=0, description="time between scans without events")

    def takes(self, path: Path) -> bool:
        """Return whether these options select the file at ``path``.

        Ignore files and links may still exclude it.
        """
        return path.is_relative_to(self.path) and self.selection().takes(path.relative_to(self.path).parts)

    def selection(self) -> Selection:
        hidden = () if self.hidden else (".*",)
        sidecars = () if self.sidecar is None else (f"*{self.sidecar}",)
        exclude = rules([*hidden, *NOT_DOCUMENTS, *self.exclude, *sidecars])
        return Selection(rules(self.include), exclude, tuple(self.ignore_files), self.symlinks)


class Folder:
    """Connector for the files of a folder. Implements Watchable, Scoped and Trackable, too."""

    near = True

    def __init__(self, options: FolderOptions) -> None:
        self._options = options
        self._path = str(options.path.absolute())
        self._uri = "/".join(map(escape, self._path.rstrip("/").split("/")))
        self._selection = options.selection()
        self._growing = Growing()

    def scan(self) -> Iterator[Item]:
        return self.scan_under("")

    def scan_under(self, under: str) -> Iterator[Item]:
        """Yield the documents at or below a key. Raises NeedsHuman, Transient or PartialScan."""
        with self._root() as root:
            walk = Walk(root, os.path.realpath(self._path), self._selection)
            for key, status in walk.below(names_of(under)):
                version, values, _ = self._sidecar(root, key)
                version = f"{_version(status)} {version}" if version else _version(status)
                yield Item(key, version, f"{self._uri}/{key}", status.st_size, status.st_mtime, values)
            self._require_same_folder(root)
        if walk.unknown:
            raise PartialScan(self._describe_unknown(walk.unknown), cover(walk.unknown, _UNKNOWN))

    def fetch(self, item: Item) -> Blob:
        """Read a file. Raises Stale, Transient (unreadable, or being written) or BadDocument (too large)."""
        check_size(item, item.size, self._options.max_size, OR_EXCLUDE)
        try:
            with self._root() as root:
                self._check_sidecar(root, item)
                data = self._data(root, item)
        except OSError as error:
            raise _unreadable(item, error) from error
        return Blob(data, item.key.rpartition("/")[2])

    def same(self, version: str, other: str) -> bool:
        """Return whether two versions are of the same file, which may have been moved or changed.

        A moved file keeps its device and inode.
        """
        return version.split(".")[:2] == other.split(".")[:2]

    def watch(self, stop: Stop) -> Iterator[Hint]:
        """Yield hints of changes until ``stop`` is set.

        The hints come from events or from polling. If the option ``watch`` is off, there is only a first
        hint.
        """
        options = self._options
        if options.watch == "off":
            yield Hint()
            stop.wait()
            return
        from ingestor.connectors.folder import watching

        if options.watch == "poll":
            yield from watching.poll_at_intervals(options.poll, stop)
        else:
            folder = watching.WatchedFolder(
                path=self._path,
                enter=self._enter,
                key_of=self._key_of_change,
                trust_remote=options.watch == "events",
                settle=options.settle,
                poll=options.poll,
            )
            yield from watching.observe(folder, stop)

    def identity(self) -> str:
        """Return an identifier of the mounted file system, by which an unmounted folder is noticed."""
        with self._root() as root:
            return identity(root)

    def _sidecar(self, root: int, key: str) -> tuple[str, _Values, str]:
        """Read the sidecar file of a document.

        Return its version, its values, and the problem if it is unusable. The version is "" if there is no
        sidecar file, and the problem "" if there is no problem.
        """
        if self._options.sidecar is None:
            return "", (), ""
        path = "/".join(names_of(key)) + self._options.sidecar
        try:
            with file(root, path) as descriptor:
                version = _version(os.fstat(descriptor))
                return version, _sidecar_values(os.read(descriptor, _LARGEST_SIDECAR + 1)), ""
        except ValueError as error:
            return version, (), str(error)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
                return "", (), ""
            return "-", (), f"can't be read: {error.strerror}"

    def _check_sidecar(self, root: int, item: Item) -> None:
        """Raise Stale if the sidecar file changed since the scan, and Transient if its content is invalid."""
        version, _, why = self._sidecar(root, item.key)
        if version != item.version.partition(" ")[2]:
            raise Stale(f"{item.uri}{self._options.sidecar} changed since it was listed")
        if why:
            raise Transient(f"{item.uri}{self._options.sidecar} {why}: correct it")

    @contextmanager
    def _root(self) -> Iterator[int]:
        try:
            root = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._no_root(error) from error
        try:
            yield root
        finally:
            os.close(root)

    def _no_root(self, error: OSError) -> Exception:
        if isinstance(error, FileNotFoundError):
            return NeedsHuman(f"the folder {self._uri} is missing: create or mount it, or correct `path`")
        if isinstance(error, NotADirectoryError):
            return NeedsHuman(f"{self._uri} is not a folder: correct `path`")
        if isinstance(error, PermissionError):
            return NeedsHuman(f"the folder {self._uri} can't be read: make it readable, or correct `path`")
        return Transient(f"the folder {self._uri} can't be read now, will be retried: {error.strerror}")

    def _require_same_folder(self, root: int) -> None:
        """Raise NeedsHuman or Transient unless the folder's path still leads to the open directory ``root``.

        The descriptor of a folder that was unmounted or deleted would list no files, as if all were removed.
        """
        try:
            now = Path(self._path).stat()
        except OSError as error:
            raise self._no_root(error) from error
        if not os.path.samestat(now, os.fstat(root)):
            raise Transient(
                f"the folder {self._uri} was replaced while it was being listed; it will be listed again"
            )

    def _describe_unknown(self, unknown: dict[str, str]) -> str:
        named = [f"{self._uri}/{key} ({why})" for key, why in islice(unknown.items(), _NAMED)]
        more = f", and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        where = ", ".join(named) + more
        return f"could not list {where}: its known documents stay; make it readable or exclude it"

    def _data(self, root: int, item: Item) -> bytes:
        """Return the content of a document's file. Raises Stale, Transient or OSError."""
        path = "/".join(names_of(item.key))
        try:
            with file(root, path) as descriptor:
                return _read(descriptor, item, self._growing)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):  # anything but a link in the path
                raise
        with file(root, self._real(path, item)) as descriptor:
            return _read(descriptor, item, self._growing)

    def _real(self, path: str, item: Item) -> str:
        """Return the real path of a file that is reached by a link.

        Raises Stale if the options do not allow that.
        """
        real, policy = real_path(os.path.realpath(self._path), f"{self._path}/{path}"), self._options.symlinks
        if policy == "skip" or (policy == "inside" and real.startswith("/")):
            raise Stale(f"{item.uri} is now reached by a link that is not followed")
        return real

    def _enter(self, path: str, entered: Entered) -> None:
        """Walk through the directories at and below ``path`` as a scan does.

        ``entered``: called for each of them (see Inotify).
        """
        with self._root() as root:
            walk = Walk(root, os.path.realpath(self._path), self._selection, entered)
            for _ in walk.below([name for name in path.split("/") if name]):
                pass

    def _key_of_change(self, path: str, is_directory: bool) -> str | None:
        """Return the key to scan after a change at ``path``; None if the change cannot affect any document.

        After a change of an ignore file, its whole directory must be scanned.
        """
        path = path.removesuffix(self._options.sidecar or "")
        names = [name for name in path.split("/") if name]
        for depth, name in enumerate(names, 1):
            last = depth == len(names)
            if last and name in self._options.ignore_files:
                return key_of(names[:-1])
            above = "/".join(names[:depth])
            if self._selection.exclude.verdict(above, name, directory=is_directory or not last):
                return None
        return key_of(names)


def _version(status: os.stat_result) -> str:
    times = f"{status.st_mtime_ns:x}.{status.st_ctime_ns:x}"
    return f"{status.st_dev:x}.{status.st_ino:x}.{status.st_size:x}.{times}"


def _of_file(item: Item) -> str:
    """Return the part of an item's version that is about its file, without that about its sidecar file."""
    return item.version.partition(" ")[0]


class Growing:
    """Finds files of lines that grow steadily, such as logs, and reads their complete lines.

    Such a file always changes between scan and reading, so it could not be read otherwise. A file counts as
    growing if its inode is the same, and its beginning is as it was EVERY seconds ago. Any thread may call.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen = dict[str, _Beginning]()  # by key
        self._logged = set[str]()

    def forget(self, item: Item) -> None:
        """Stop treating a file as growing, because it could be read completely."""
        self._seen.pop(item.key, None)

    def lines(self, descriptor: int, item: Item) -> bytes | None:
        """Return the complete lines that a growing file had at the scan; None if the file is not growing."""
        now = os.fstat(descriptor)
        if not stat.S_ISREG(now.st_mode):
            return None
        same = _version(now).split(".")[:2] == item.version.split(".")[:2]
        changed = same and _version(now) != _of_file(item)  # an unchanged file can be read completely
        if PurePath(item.key).suffix.lower() not in OF_LINES or not changed or not item.size:
            return None
        seen = self._seen.get(item.key)
        if seen is not None and self._clock() < seen.at + EVERY:
            return None
        data = os.pread(descriptor, item.size, 0)
        grew = seen is not None and hash_of(data[: seen.size]) == seen.hash and len(data) >= seen.size
        self._seen[item.key] = _Beginning(self._clock(), len(data), hash_of(data))
        lines = data[: data.rfind(b"\n") + 1]
        if not grew or not lines or b"\0" in lines or len(data) < item.size or now.st_size < item.size:
            return None
        if item.key not in self._logged:
            self._logged.add(item.key)
            log.info("%s grows steadily: complete lines are indexed every %.0f s", item.uri, EVERY)
        return lines


class _Beginning(NamedTuple):
    at: float  # seconds
    size: int
    hash: bytes


def hash_of(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _read(descriptor: int, item: Item, growing: Growing) -> bytes:
    """Return a file's content as it was at the scan; if the file is growing, its complete lines.

    Raises Stale if the file changed since the scan, Transient if it is being written, or OSError.
    """
    try:
        data = _read_whole(descriptor, item)
    except (Stale, Transient):
        lines = growing.lines(descriptor, item)
        if lines is None:
            raise
        return lines
    growing.forget(item)
    return data


def _read_whole(descriptor: int, item: Item) -> bytes:
    before, now = os.fstat(descriptor), time.time_ns()
    if not stat.S_ISREG(before.st_mode) or _version(before) != _of_file(item):
        raise Stale(f"{item.uri} changed since it was listed")
    # A second write within a tick of the file system's clock would leave the version as it is.
    if abs(now - before.st_ctime_ns) < (_TICK if before.st_ctime_ns % 10**9 else _COARSE_TICK):
        raise Transient(f"{item.uri} is still being written; it will be retried")
    data = os.read(descriptor, before.st_size + 1)
    if len(data) < before.st_size:  # a large file, or a file system that returns less at once
        with open(descriptor, "rb", closefd=False) as stream:
            data += stream.read(before.st_size + 1 - len(data))
    if _version(os.fstat(descriptor)) != _of_file(item) or len(data) != before.st_size:
        raise Stale(f"{item.uri} changed while it was read")
    return data


def _unreadable(item: Item, error: OSError) -> Transient:
    """Return the error that reports an unreadable file."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        return Stale(f"{item.uri} vanished since it was listed")
    if isinstance(error, PermissionError):
        return Transient(f"{item.uri} can't be read: give this user read access, or exclude it")
    return Transient(f"{item.uri} can't be read now, will be retried: {error.strerror}")


def _sidecar_values(data: bytes) -> _Values:
    """Parse the content of a sidecar file, YAML or JSON, as metadata. Raises ValueError with the problem.

    Lists of texts stay lists. Other values are converted as ``typed.scalar`` does.
    """
    if len(data) > _LARGEST_SIDECAR:
        raise ValueError(f"has more than {_LARGEST_SIDECAR:,} bytes")
    try:
        values = yaml.safe_load(data.decode("utf-8-sig"))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"line {line}: {error.problem or 'is not valid YAML'}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError("is neither YAML nor JSON in UTF-8") from error
    if values is None:
        return ()
    if not isinstance(values, dict):
        raise ValueError("must be a mapping of keys to values, such as `team: library`")
    return tuple(
        (text(str(key)), _sidecar_value(value)) for key, value in values.items() if value not in (None, [])
    )


def _sidecar_value(value: object) -> Scalar | tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(map(text, value))
    return scalar(value)


PLUGIN = Plugin(kind="folder", version=1, options=FolderOptions, build=Folder)
