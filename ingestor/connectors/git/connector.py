"""Connector ``git``: each file of a repository's branch or tag that the options select is a document.

The ``git`` program keeps a bare clone in the ``cache`` folder. If the branch did not move, a scan is one
request to the server. A key is the path, with "/" between its parts (shared/keys.py escapes odd names). A
version is the blob's id and the last commit that touched the path, so a renamed file is recognised by its
content. With ``history`` off only the newest commit is fetched, and authors are unknown. Submodules, symbolic
links and files in Git LFS are not documents.
"""

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, repeat
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from ingestor.connectors.git.repository import Clone, GitFailed, Login, TreeTooLarge
from ingestor.connectors.shared.keys import key_of
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
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient
from ingestor.registry import Options, Plugin, require_match, tuning
from ingestor.units import Duration

_FILE_MODES = ("100644", "100755")
_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_LARGEST_TREE = 2 * 10**8  # bytes of a listing: about two million files
_LOG = (
    "log",
    "-z",
    "--name-only",
    "--no-renames",
    "--topo-order",
    "--root",
    "--format=%x00%P%x09%H %ct %cI %aN",
)
_REF = r"(?!-)[^\s~^:?*\[\\\x00-\x1f\x7f]+"
_LATEST = 253_402_300_799  # seconds: the end of the year 9999


def _address(url: str) -> str:
    if url.startswith("~"):
        url = str(Path(url).expanduser())
    if re.match(r"(https?|ssh|git|file)://.", url):
        user, at, _ = urlsplit(url).netloc.rpartition("@")
        if at and (":" in user or url.startswith("http")):  # a token may stand in place of a user name
            raise ValueError(
                "must hold no password: put it into `token`, which is kept secret, its name into `user`"
            )
        return url
    if url.startswith("/") or (re.match(r"[\w.@-]+:(?!:|//).", url) and not url.startswith("-")):
        return url
    raise ValueError("must be an https, ssh, git or file URL, user@host:path, or an absolute path")


class GitOptions(Options):
    """Options of ``git``. Patterns work as in the folder connector."""

    url: Annotated[str, AfterValidator(_address)] = Field(
        description="address of the repository: https, ssh, git or file, `user@host:path`, or a folder"
    )
    ref: Annotated[str, require_match(_REF, "must be the name of a branch or tag")] = Field(
        default="HEAD", description="branch or tag; `HEAD`: the default branch"
    )
    include: Include
    exclude: Exclude
    hidden: Hidden
    max_size: MaxSize
    history: bool = Field(
        default=True,
        description="add `commit`, `author` and `date` of each file's last change to the metadata; "
        "`false` fetches the newest commit only, which is faster",
    )
    user: str = Field(default="git", description="user of `token`, if the server needs one")
    token: SecretStr | None = Field(
        default=None,
        description="password or access token for http(s); default: git's own keys and helpers",
    )
    cache: Path = tuning(Path("~/.cache/ingestor/git"), description="folder of the clone")
    timeout: Duration = tuning(600.0, gt=0, description="time limit of one fetch")

    @model_validator(mode="after")
    def _token_over_http(self) -> "GitOptions":
        if self.token is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("`token` is for http and https; ssh uses this user's keys: leave `token` out")
        return self


@dataclass(frozen=True, slots=True)
class Touch:
    """A commit that changed a path."""

    seconds: int  # POSIX, of the commit
    commit: str
    date: str = ""  # ISO 8601, as the committer had it
    author: str = ""


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A commit in the log: its parents, and the paths that differ from the first of them."""

    touch: Touch
    parents: tuple[str, ...]
    paths: frozenset[str]


Touches = dict[str, Touch]  # by path as os.fsdecode gives it


class Git:
    """Connector for a repository."""

    def __init__(self, options: GitOptions) -> None:
        self._options = options
        self._chosen = choose(options.include, options.exclude, hidden=options.hidden)
        token = options.token.get_secret_value() if options.token else ""
        login = Login(options.user, token) if token else Login()
        name = f"{_short(options.url)}{'' if options.history else '-newest'}.git"
        self._clone = Clone(options.cache.expanduser() / name, options.url, login, options.timeout)
        self._history: tuple[str, Touches] = ("", {})  # of the commit that was listed last

    def scan(self) -> Iterator[Item]:
        """Yield the files of the newest commit. Raises NeedsHuman or Transient if it could not be fetched."""
        options = self._options
        local = f"refs/ingestor/{_short(options.ref)}"
        commit = self._clone.fetch(options.ref, local, shallow=not options.history)
        try:
            tree = self._clone.run("ls-tree", "-r", "-z", "-l", "--full-tree", commit, most=_LARGEST_TREE)
            entries = list(filter(None, tree.split(b"\0")))
            touches = self._touches(commit, entries) if options.history else {}
        except TreeTooLarge as error:
            raise NeedsHuman(
                f"{options.url} has too many files ({error}): use another `ref`, or remove the source"
            ) from error
        except GitFailed as error:
            self._clone.discard()
            raise Transient(
                f"the clone of {options.url} is damaged and will be made again: {error}"
            ) from error
        for entry in entries:
            yield from self._items(entry, touches)

    def fetch(self, item: Item) -> Blob:
        """Return the file as it was listed, even if the branch moved on. Raises Stale or BadDocument."""
        check_size(item, item.size, self._options.max_size, OR_EXCLUDE)
        try:
            blob = item.version.partition(" ")[0]
            data = self._clone.run("cat-file", "blob", blob, most=self._options.max_size + len(_LFS))
        except GitFailed as error:
            raise Stale(f"{item.uri} is not in the clone any more: {error}") from error
        if data.startswith(_LFS):
            raise BadDocument(f"{item.uri} is stored in Git LFS, which is not supported: exclude it")
        return Blob(data, item.key.rpartition("/")[2])

    def _items(self, entry: bytes, touches: Touches) -> Iterator[Item]:
        """Yield the item of a line of ``git ls-tree -l``: mode, type, id, size, tab, path."""
        facts, _, raw = entry.partition(b"\t")
        mode, _, blob, size = facts.decode().split()
        path = os.fsdecode(raw)
        if mode not in _FILE_MODES or not size.isdigit() or not self._chosen.takes(path):
            return
        key, touch = key_of(path.split("/")), touches.get(path)
        uri = f"{self._place()}/{key}"
        if touch is None:
            yield Item(key, blob, uri, int(size))
            return
        known = (("commit", touch.commit), ("author", touch.author), ("date", touch.date))
        extra = tuple((name, value) for name, value in known if value)
        yield Item(key, f"{blob} {touch.commit}", uri, int(size), float(touch.seconds) or None, extra)

    def _place(self) -> str:
        url, ref = self._options.url.rstrip("/").removesuffix(".git").rstrip("/"), self._options.ref
        return url if ref == "HEAD" else f"{url}@{ref}"

    def _touches(self, commit: str, entries: Sequence[bytes]) -> Touches:
        """Return the last commit that changed each listed path. Reads only commits since the last call."""
        before, known = self._history
        if before != commit:
            paths = {os.fsdecode(entry.partition(b"\t")[2]) for entry in entries}
            is_newer = bool(before) and self._is_ancestor(before, commit)
            touches = self._newest(commit, paths, before, known) if is_newer else None
            self._history = commit, self._newest(commit, paths) or {} if touches is None else touches
        return self._history[1]

    def _newest(
        self, commit: str, paths: set[str], before: str = "", known: Touches | None = None
    ) -> Touches | None:
        """Return the last touch of each path; None if commits since ``before`` do not show every touch."""
        which = [commit, *([f"^{before}"] if before else []), "--"]
        steps = steps_of(self._clone.run(*_LOG, "--diff-merges=first-parent", *which))
        merged = steps_of(self._clone.run(*_LOG, "--merges", "-c", *which), combined=True)
        own = {step.touch.commit: step.paths for step in merged}
        return newest(commit, paths, steps, own, {before: known or {}} if before else {})

    def _is_ancestor(self, before: str, commit: str) -> bool:
        """Return whether ``before`` is an ancestor; not after a forced push."""
        try:
            self._clone.run("merge-base", "--is-ancestor", before, commit)
        except GitFailed:
            return False
        return True


def steps_of(log: bytes, *, combined: bool = False) -> Iterator[LoggedCommit]:
    """Parse the output of ``git log -z --name-only`` in our format into commits.

    Fields end in NUL. A commit follows an empty field, and a line feed precedes its first path. In a log of
    combined differences an empty field replaces the line feed.
    """
    fields = deque(log.split(b"\0"))
    while fields:
        if not (head := fields.popleft()):
            continue
        parents, _, facts = head.decode("utf-8", "replace").partition("\t")
        if combined:
            fields.popleft()
        paths = list[str]()
        while fields and fields[0]:
            path = fields.popleft()
            paths.append(os.fsdecode(path if paths or combined else path.removeprefix(b"\n")))
        yield LoggedCommit(_touch(facts), tuple(parents.split()), frozenset(paths))


def newest(
    commit: str,
    paths: set[str],
    steps: Iterable[LoggedCommit],
    merged: Mapping[str, frozenset[str]],
    known: Mapping[str, Touches],
) -> Touches | None:
    """Return the last change of each path, in the order of history: clocks do not count.

    ``steps``: children before parents. ``merged``: paths of merge commits that differ from every parent. A
    path that a merge took from one parent is followed there. ``known``: the answers at commits where
    ``steps`` end. None if a path leads to another end.
    """
    touches: Touches = {}
    wanted: dict[str, set[str]] = {commit: set(paths)}
    for step in steps:
        here = wanted.pop(step.touch.commit, set())
        own = merged.get(step.touch.commit, frozenset()) if len(step.parents) > 1 else step.paths
        for path in own & here:
            touches.setdefault(path, step.touch)
        taken = set((step.paths - own) & here)
        here -= step.paths
        here -= own
        for onward, parent in zip(chain([here], repeat(taken)), step.parents, strict=False):
            less, more = sorted((onward, wanted.get(parent, set())), key=len)
            wanted[parent] = more if more is not taken else set(more)
            wanted[parent] |= less
    for end, rest in wanted.items():
        rest -= touches.keys()
        if known and rest - known.get(end, {}).keys():
            return None
        touches.update({path: known[end][path] for path in rest if known})
    return touches


def _touch(head: str) -> Touch:
    """Parse a commit. A date that git cannot read, or that no calendar has, counts as the oldest."""
    commit, seconds, date, author = head.split(" ", 3)
    if not (seconds.isascii() and seconds.isdigit() and int(seconds[:20]) <= _LATEST):
        return Touch(0, commit, "", author)
    return Touch(int(seconds), commit, date, author)


def _short(text: str) -> str:
    return blake2b(text.encode(), digest_size=10).hexdigest()


PLUGIN = Plugin(kind="git", version=1, options=GitOptions, build=Git)
