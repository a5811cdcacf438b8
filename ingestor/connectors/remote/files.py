"""Connector ``files``: every file in an fsspec file system (S3, SFTP, WebDAV, ...), if the options match it.

A key is the path below the address, with "/" between its parts. A version is size, time of change, and an
ETag or the like, as the server reports them. A directory that cannot be listed is unknown, never empty. The
PartialScan that ends the scan names each unknown directory. That includes directories that the server reports
as missing: some file systems do that after every failure. Links are not followed.
"""

import errno
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from threading import Lock
from typing import Annotated, Any, TypeVar

from fsspec.registry import available_protocols
from pydantic import AfterValidator, Field, SecretStr

from ingestor.connectors.remote.listings import address, entries, is_marked, size, time_of_change, version
from ingestor.connectors.remote.systems import LISTING, content, describe_missing, list_objects, open_address
from ingestor.connectors.shared.keys import cover, escape, unescape
from ingestor.connectors.shared.patterns import (
    OR_EXCLUDE,
    Exclude,
    Hidden,
    Include,
    MaxSize,
    check_size,
    choose,
)
from ingestor.model import Blob, Item
from ingestor.ports import NeedsHuman, PartialScan, Stale, Transient
from ingestor.registry import Options, Plugin

_FLAT = ("s3", "s3a")  # protocols where one request lists all files below a path
_ARCHIVES = ("zip", "tar", "libarchive")  # this process would open them, without limits
_LAYERS = (  # layers over another file system, which `options` name
    "async_wrapper", "asyncwrapper", "blockcache", "cached", "data", "dir", "filecache", "generic",
    "reference", "simplecache",
)  # fmt: skip
_OF_INDEXES = ("http", "https")
_WHOLE = (*_ARCHIVES, *_LAYERS, "github")  # protocols whose root has no name, or is in `options`
_UNKNOWN = 100  # subtrees named by one PartialScan
_DEEPEST = 100  # nested folders; pages that link to themselves never end
_MOST_FOLDERS = 200_000
_IN_A_ROW = 5  # failures after which the address itself is listed, to check the server
_PAGE = 20 * 10**6  # bytes of an index page
_COARSE = 3.0  # seconds in which a second change may leave the same time, if times are whole seconds
_REFUSED = re.compile(
    r"Auth|Credential|Permission|Forbidden|AccessDenied|Logon|WrongPassword|PasswordExpired", re.IGNORECASE
)
_STATUSES = ("status", "status_code", "code")  # names of the HTTP status in various clients
_TRAP = f"more than {_DEEPEST} nested folders, {_MOST_FOLDERS:,} in all, or {LISTING:g} s: a crawl trap?"
_Info = dict[str, Any]
T = TypeVar("T")


def _address(url: str) -> str:
    protocol, separator, rest = url.partition("://")
    if not separator or not (rest or protocol in _WHOLE):
        raise ValueError("must be a URL such as s3://bucket/folder or sftp://host/folder")
    if protocol in _ARCHIVES:
        raise ValueError(
            f"{protocol}:// would open an archive without protection: name the folder that holds the "
            "archive, and set `archives: true`"
        )
    if protocol in _LAYERS or "::" in url:
        raise ValueError(
            "must be the address of one file system, without `::` or a caching protocol in front of it"
        )
    if protocol not in available_protocols():
        raise ValueError(f"no installed file system reads {protocol}://: correct `url`")
    if re.match(r"[^/@]*:[^/@]*@", rest) and protocol != "github":
        raise ValueError("must not contain a password: put it into `secrets`")
    return f"{protocol}://{rest.rstrip('/')}"


class FilesOptions(Options):
    """Options of ``files``. Patterns are written as for the folder connector."""

    url: Annotated[str, AfterValidator(_address)] = Field(
        description="address of the folder: `s3://bucket/folder`, `sftp://host/folder`, ..."
    )
    include: Include
    exclude: Exclude
    hidden: Hidden
    max_size: MaxSize
    options: dict[str, Any] = Field(
        default={},
        description="arguments of the file system: `endpoint_url`, `username`, ... (see its documentation)",
    )
    secrets: dict[str, SecretStr] = Field(
        default={},
        description="secret arguments: `key`, `secret`, `password`, ...",
    )


class Files:
    """Connector for the files of a remote file system.

    A scan below a folder also lists the folders above it, because only their listings show that the folder is
    gone.
    """

    def __init__(self, options: FilesOptions) -> None:
        self._options = options
        self._is_chosen = choose(options.include, options.exclude, hidden=options.hidden)
        self._protocol = options.url.partition("://")[0]
        self._lock = Lock()
        self._opened: tuple[Any, str] | None = None  # the file system, and the path of the address in it

    def scan(self) -> Iterator[Item]:
        """Yield the files that the options select.

        Raises NeedsHuman or Transient if the address cannot be listed. Raises PartialScan at the end if a
        folder cannot be listed.
        """
        return self.scan_under("")

    def scan_under(self, under: str) -> Iterator[Item]:
        """Yield the documents at or below a key. Raises the same errors as ``scan``."""
        unknown = _Unknown(lambda: self._request(lambda system, root: self._list(system, root, "")))
        self._request(lambda system, root: system.invalidate_cache())
        below = "/".join(map(unescape, under.split("/")))
        files: Iterable[tuple[str, _Info]] = self._walk(below, unknown)
        if self._protocol in _FLAT:
            files = self._request(lambda system, root: self._list_flat(system, root, below))
        for path, info in files:
            if not (_covers(below, path) and self._is_chosen(path)):
                continue
            key = _key(path)
            try:
                item = self._item(key, info)
            except (NeedsHuman, Transient) as error:
                unknown.add(key, error)
                continue
            unknown.failed = 0
            yield item
        if unknown.reasons:
            key, why = next(iter(unknown.reasons.items()))
            more = f", and {len(unknown.reasons) - 1} more" if len(unknown.reasons) > 1 else ""
            message = f"could not list {self._uri(key)} ({why}){more}: its known documents stay"
            raise PartialScan(message, cover(unknown.reasons, _UNKNOWN))

    def fetch(self, item: Item) -> Blob:
        """Read a file. Raises Stale, Transient, NeedsHuman or BadDocument (too large)."""
        most = self._options.max_size
        check_size(item, item.size, most, OR_EXCLUDE)
        path = "/".join(map(unescape, item.key.split("/")))

        def read(system: Any, root: str) -> tuple[bytes, _Info]:
            full = address(root, path) if self._protocol in _OF_INDEXES else _join(root, path)
            data = content(system, self._protocol, full, most)
            system.invalidate_cache()
            return data, system.info(full)  # after the content, so that a change meanwhile shows

        try:
            data, after = self._request(read)
        except _Missing as error:
            raise Stale(f"{item.uri} vanished since it was listed") from error
        except NeedsHuman as error:  # the next listing shows whether this concerns all files
            raise Transient(str(error)) from error
        if version(after) != item.version.partition(" seen ")[0]:
            raise Stale(f"{item.uri} changed since it was listed")
        check_size(item, len(data), most, OR_EXCLUDE)
        if len(data) < (size(after) or 0):
            raise Transient(f"{item.uri} was cut off after {len(data):,} bytes, will be retried")
        return Blob(data, path.rpartition("/")[2], after.get("mimetype") or after.get("ContentType"))

    def _item(self, key: str, info: _Info) -> Item:
        """Convert a file in a listing to an item.

        If the listing has nothing to make a version of, the facts of the single file are requested. Raises
        NeedsHuman or Transient.
        """
        mark = version(info)
        if mark is None:
            info = self._request(lambda system, root: dict(system.info(info["name"])))
            mark = version(info)
        if mark is None:
            raise NeedsHuman(
                f"the server sends neither ETag nor time of change of {self._uri(key)}, so changes can't be "
                "noticed: use another server"
            )
        changed = time_of_change(info)
        if not is_marked(info) and changed == int(changed or -1) and abs(time.time() - changed) < _COARSE:
            mark += f" seen {time.time()}"  # forces another reading: a later change may leave the same time
        return Item(key, mark, self._uri(key), size(info), changed)

    def _uri(self, key: str) -> str:
        url = self._options.url
        return f"{url}{key}" if url.endswith("://") else f"{url}/{key}"

    def _list(self, system: Any, root: str, above: str) -> list[tuple[str, _Info]]:
        """Return the entries of one folder, with their paths below the address."""
        if self._protocol in _OF_INDEXES:
            return _list_index(system, root, above)
        entries = system.ls(_join(root, above), detail=True)
        return [
            (path, info) for info in entries if (path := _beneath(root, info["name"]).strip("/")) != above
        ]

    def _walk(self, under: str, unknown: "_Unknown") -> Iterator[tuple[str, _Info]]:
        """Yield the files in all folders at, below and above a path, each with its path below the address.

        Folders that cannot be listed are added to ``unknown``. Raises NeedsHuman or Transient if the address
        itself cannot be listed.
        """
        pending, seen, until = [""], {""}, time.monotonic() + LISTING
        while pending:
            above = pending.pop()
            if len(seen) > _MOST_FOLDERS or above.count("/") >= _DEEPEST or time.monotonic() > until:
                unknown.reasons[_key(above)] = _TRAP
                continue
            try:
                entries = self._request(lambda system, root, above=above: self._list(system, root, above))  # type: ignore[misc]
            except (NeedsHuman, Transient) as error:
                if not above:
                    raise
                unknown.add(_key(above), error)
                continue
            unknown.failed = 0
            for path, info in entries:
                on_the_way = _covers(under, path) or _covers(path, under)
                if info["type"] == "directory" and on_the_way and path not in seen:
                    seen.add(path)
                    pending.append(path)
                elif info["type"] == "file":
                    yield path, info

    def _list_flat(self, system: Any, root: str, under: str) -> list[tuple[str, _Info]]:
        """Return all files at or below a path, each with its path below the address, by a single listing.

        Only some protocols, such as S3, can list all levels at once.
        """
        full = _join(root, under)
        objects = list_objects(system, full)
        if under and full not in objects:  # an object with the name of a folder is left out
            with suppress(FileNotFoundError):
                system.invalidate_cache()
                objects[full] = system.info(full)
        return [
            (path, info)
            for info in objects.values()
            if info["type"] == "file" and (path := _beneath(root, info["name"])) and not path.endswith("/")
        ]

    def _request(self, question: Callable[[Any, str], T]) -> T:
        """Call ``question`` with the file system and the address's path in it, and return the result.

        If the old connection was closed, retry once with a new one. Raises NeedsHuman or Transient.
        """
        kept = self._opened
        try:
            return self._answer(question)
        except Transient:
            if kept is None or kept[0].async_impl:
                raise
        return self._answer(question)

    def _answer(self, question: Callable[[Any, str], T]) -> T:
        """Call ``question`` as ``_request`` does, without a retry.

        Calls of a file system that is not asynchronous run one at a time. After an error other than a missing
        file, the next call opens a new connection.
        """
        try:
            with self._lock:
                system, root = self._opened = self._opened or self._open()
                if not system.async_impl:
                    return question(system, root)
            return question(system, root)
        except (NeedsHuman, Transient):
            raise
        except Exception as error:  # every file system has its own errors
            if not _is_missing(error):
                self._opened = None
            raise self._trouble(error) from error

    def _open(self) -> tuple[Any, str]:
        options = self._options
        secrets = {name: secret.get_secret_value() for name, secret in options.secrets.items()}
        return open_address(options.url, {**options.options, **secrets})

    def _trouble(self, error: Exception) -> Exception:
        url, why = self._options.url, f"{type(error).__name__}: {error}"
        if isinstance(error, ImportError):
            return NeedsHuman(describe_missing(self._protocol, error))
        if _is_missing(error):
            return _Missing(f"{url} does not exist or can't be read: create it, or correct `url` ({why})")
        codes = (getattr(error, name, None) for name in _STATUSES)
        status = next((code for code in codes if code is not None), None)
        is_refused = _REFUSED.search(type(error).__name__) or re.match("(530|401|403) ", str(error))
        if status in (401, 403) or is_refused or getattr(error, "errno", None) in (errno.EACCES, errno.EPERM):
            return NeedsHuman(f"{url} refuses the login ({why}): check `secrets` and `options`")
        if isinstance(error, TypeError | ValueError) and not isinstance(error.__cause__, OSError):
            return NeedsHuman(
                f"{url} can't be opened with these options ({why}): check `options` and `secrets`"
            )
        return Transient(f"{url} can't be read now, will be retried: {why}")


class _Unknown:
    """Folders and files that a scan could not list, so that it does not know what they contain.

    ``reasons``: the reasons by key. ``failed``: how many listings failed in a row.
    """

    def __init__(self, ask_address: Callable[[], object]) -> None:
        self._ask_address = ask_address
        self.reasons: dict[str, str] = {}
        self.failed = 0

    def add(self, key: str, error: Exception) -> None:
        """Add the key of a folder or file that could not be listed.

        If several listings in a row failed, the server may be down. Then the address itself is listed, which
        raises an error if that fails, too.
        """
        self.reasons[key] = str(error)
        self.failed += isinstance(error, Transient)
        if self.failed >= _IN_A_ROW:
            self._ask_address()
            self.failed = 0


class _Missing(NeedsHuman):
    """Error: a path does not exist on the server.

    If it is the address of the source, a person must correct the config. If it lies below, the file or folder
    was removed.
    """


def _is_missing(error: Exception) -> bool:
    """Return whether an error of a file system means that a file does not exist.

    Some file systems raise FileNotFoundError, others an OSError with the same errno.
    """
    return isinstance(error, OSError) and (
        isinstance(error, FileNotFoundError) or error.errno in (errno.ENOENT, errno.ENOTDIR)
    )


def _list_index(system: Any, root: str, above: str) -> list[tuple[str, _Info]]:
    """Return the entries of a folder, read from its index page.

    The page does not have sizes and times; they are requested later for each file.
    """
    url = f"{address(root, above)}/" if above else f"{root}/"
    page = content(system, "http", url, _PAGE)
    if len(page) > _PAGE:
        raise NeedsHuman(
            f"{url} has more than {_PAGE:,} bytes, so it is not the index page of a folder: correct `url`"
        )
    links = entries(page, url)
    paths = {(f"{above}/{name}" if above else name): is_folder for name, is_folder in links.items()}
    return [
        (path, {"name": address(root, path), "type": "directory" if is_folder else "file"})
        for path, is_folder in paths.items()
    ]


def _key(path: str) -> str:
    return "/".join(map(escape, path.split("/")))


def _covers(under: str, path: str) -> bool:
    return not under or path == under or path.startswith(f"{under}/")


def _beneath(root: str, name: str) -> str:
    return name.removeprefix(root).removeprefix("/")


def _join(root: str, path: str) -> str:
    return f"{root}/{path}" if path else root or "/"


PLUGIN = Plugin(kind="files", version=1, options=FilesOptions, build=Files)
