"""Connector ``git``: every file in a branch or tag of a repository is a document, if the options match it.

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
from contextlib import suppress
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
        try:
            url = str(Path(url).expanduser())
        except RuntimeError:
            raise ValueError(
                f"no home folder is known for {Path(url).parts[0]!r}: write the whole path"
            ) from None
    if re.match(r"(https?|ssh|git|file)://.", url):
        user, at, _ = urlsplit(url).netloc.rpartition("@")
        if at and (":" in user or url.startswith("http")):  # a token may stand in place of a user name
            raise ValueError(
                "must not contain a password: put it into `token`, which is kept "
                "secret, and its user name into `user`"
            )
        return url
    if url.startswith("/") or (re.match(r"[\w.@-]+:(?!:|//).", url) and not url.startswith("-")):
        return url
    raise ValueError("must be an https, ssh, git or file URL, user@host:path, or an absolute path")


class GitOptions(Options):
    """Options of ``git``. Patterns are written as for the folder connector."""

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
    """The commit that last changed a path, with its date and author."""

    seconds: int  # POSIX, of the commit
    commit: str
    date: str = ""  # ISO 8601, as the committer had it
    author: str = ""


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A commit in the output of ``git log``: its parents, and the paths that differ from its first parent."""

    touch: Touch
    parents: tuple[str, ...]
    paths: frozenset[str]


Touches = dict[str, Touch]  # by path as os.fsdecode gives it


class Git:
    """Connector for one branch or tag of a repository."""

    def __init__(self, options: GitOptions) -> None:
        self._options = options
        self._is_chosen = choose(options.include, options.exclude, hidden=options.hidden)
        token = options.token.get_secret_value() if options.token else ""
        login = Login(options.user, token) if token else Login()
        name = f"{_short(options.url)}{'' if options.history else '-newest'}.git"
        self._clone = Clone(options.cache.expanduser() / name, options.url, login, options.timeout)
        self._history: tuple[str, Touches] = ("", {})  # the commit that was listed last, and its touches

    def scan(self) -> Iterator[Item]:
        """Fetch the newest commit of the branch or tag, and yield its files.

        Raises NeedsHuman or Transient.
        """
        options = self._options
        local = f"refs/ingestor/{_short(options.ref)}"
        commit = self._clone.fetch(options.ref, local, shallow=not options.history)
        try:
            tree = self._clone.run("ls-tree", "-r", "-z", "-l", "--full-tree", commit, most=_LARGEST_TREE)
            entries = list(filter(None, tree.split(b"\0")))
            touches = self._last_touches(commit, entries) if options.history else {}
        except TreeTooLarge as error:
            raise NeedsHuman(
                f"{options.url} has too many files ({error}): use another `ref`, or remove the source"
            ) from error
        except GitFailed as error:
            self._clone.discard()
            raise Transient(
                f"the clone of {options.url} is damaged and will be created again: {error}"
            ) from error
        address = options.url.rstrip("/").removesuffix(".git").rstrip("/")
        if options.ref != "HEAD":
            address = f"{address}@{options.ref}"
        for entry in entries:  # mode, type, id, size, tab, path
            facts, _, raw = entry.partition(b"\t")
            mode, _, blob, size = facts.decode().split()
            path = os.fsdecode(raw)
            if mode in _FILE_MODES and size.isdigit() and self._is_chosen(path):
                key = key_of(path.split("/"))
                yield _item(key, blob, f"{address}/{key}", int(size), touches.get(path))

    def fetch(self, item: Item) -> Blob:
        """Return a file as of the commit in which it was listed, even if there are newer commits.

        Raises Stale or BadDocument.
        """
        check_size(item, item.size, self._options.max_size, OR_EXCLUDE)
        try:
            blob = item.version.partition(" ")[0]
            data = self._clone.run("cat-file", "blob", blob, most=self._options.max_size + len(_LFS))
        except GitFailed as error:
            raise Stale(
                f"{item.uri} is not in the clone any more, the next scan lists it again: {error}"
            ) from error
        if data.startswith(_LFS):
            raise BadDocument("stored in Git LFS, which is not supported: exclude it")
        return Blob(data, item.key.rpartition("/")[2])

    def _last_touches(self, commit: str, entries: Sequence[bytes]) -> Touches:
        """Return, for each listed path, the last commit that changed it.

        Only commits since the last call are read; after a forced push, the whole history is read again.
        ``entries``: the listed paths, as lines of ``git ls-tree -l``. Raises GitFailed.
        """
        before, earlier = self._history
        if before != commit:
            paths = {os.fsdecode(entry.partition(b"\t")[2]) for entry in entries}
            touches = None
            if before:
                with suppress(GitFailed):  # ``before`` is no ancestor
                    self._clone.run("merge-base", "--is-ancestor", before, commit)
                    touches = self._read_history(commit, paths, [f"^{before}"], {before: earlier})
            self._history = commit, touches or self._read_history(commit, paths, [], {}) or {}
        return self._history[1]

    def _read_history(
        self, commit: str, paths: set[str], without: Sequence[str], earlier: Mapping[str, Touches]
    ) -> Touches | None:
        """Read the history up to ``commit``. Return the last commit that changed each path (see ``newest``).

        ``without``: arguments of git that exclude commits which earlier calls have read. ``earlier``: the
        results of these calls.
        """
        commits = [commit, *without, "--"]
        steps = steps_of(self._clone.run(*_LOG, "--diff-merges=first-parent", *commits))
        merged = steps_of(self._clone.run(*_LOG, "--merges", "-c", *commits), combined=True)
        return newest(commit, paths, steps, {step.touch.commit: step.paths for step in merged}, earlier)


def _item(key: str, blob: str, uri: str, size: int, touch: Touch | None) -> Item:
    if touch is None:
        return Item(key, blob, uri, size)
    facts = (("commit", touch.commit), ("author", touch.author), ("date", touch.date))
    extra = tuple((name, value) for name, value in facts if value)
    return Item(key, f"{blob} {touch.commit}", uri, size, float(touch.seconds) or None, extra)


def steps_of(log: bytes, *, combined: bool = False) -> Iterator[LoggedCommit]:
    """Parse the output of ``git`` with the arguments ``_LOG``, and yield its commits.

    Fields end in NUL. A commit follows an empty field, and a line feed precedes its first path. In a log of
    combined differences (``git log -c``) an empty field replaces the line feed.
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
    earlier: Mapping[str, Touches],
) -> Touches | None:
    """Return, for each path, the last commit that changed it. History decides, not the dates of commits.

    ``steps``: the commits, children before parents. ``merged``: for each merge commit, the paths that differ
    from every parent. If a merge took a path unchanged from one parent, the search goes on at that parent.
    ``earlier``: results of earlier calls, by the commits at which ``steps`` end. Return None if a path leads
    to a commit that is neither in ``steps`` nor in ``earlier``.
    """
    touches: Touches = {}
    pending: dict[str, set[str]] = {commit: set(paths)}
    for step in steps:
        here = pending.pop(step.touch.commit, set())
        own = merged.get(step.touch.commit, frozenset()) if len(step.parents) > 1 else step.paths
        for path in own & here:
            touches.setdefault(path, step.touch)
        from_parent = set((step.paths - own) & here)
        here -= step.paths
        here -= own
        for onward, parent in zip(chain([here], repeat(from_parent)), step.parents, strict=False):
            less, more = sorted((onward, pending.get(parent, set())), key=len)
            pending[parent] = more if more is not from_parent else set(more)
            pending[parent] |= less
    for end, rest in pending.items():
        rest -= touches.keys()
        if earlier and rest - earlier.get(end, {}).keys():
            return None
        touches.update({path: earlier[end][path] for path in rest if earlier})
    return touches


def _touch(head: str) -> Touch:
    """Parse hash, POSIX seconds, date and author of a commit.

    A date after the year 9999 counts as the oldest date.
    """
    commit, seconds, date, author = head.split(" ", 3)
    if not (seconds.isascii() and seconds.isdigit() and int(seconds[:20]) <= _LATEST):
        return Touch(0, commit, "", author)
    return Touch(int(seconds), commit, date, author)


def _short(text: str) -> str:
    return blake2b(text.encode(), digest_size=10).hexdigest()


PLUGIN = Plugin(kind="git", version=1, options=GitOptions, build=Git)
