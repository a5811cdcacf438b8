"""A bare clone, made by the ``git`` program, from which commits are fetched, listed and read.

Git never waits for a person: there is no prompt, no pager and no window of an agent. A password reaches git
through the environment of one process, never through arguments, the clone's config or its remotes.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ingestor.connectors.shared.child import Missing, OutputTooLong, ProgramFailed, RanTooLong, Run
from ingestor.connectors.shared.locks import hold_lock
from ingestor.ports import NeedsHuman, Transient

_LOCAL_SECONDS = 300.0  # for a command without network
MOST = 10**9  # bytes that a command may print
# A fetch can wait for its server for long, so git starts when the line arrives that BoundChild asks for.
_FETCH = ("/bin/sh", "-c", 'read -r _ && exec git "$@"', "git")
_STALLED = "60"  # seconds without a byte until a transfer is given up
_HELPER = (
    '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" "$INGESTOR_GIT_USER" '
    '"$INGESTOR_GIT_TOKEN"; }; f'
)
# Variables of a repository that this program may have been started in.
_FOREIGN = re.compile(
    r"GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|COMMON_DIR|NAMESPACE|PREFIX"
    r"|SHALLOW_FILE|CONFIG_COUNT|CONFIG_PARAMETERS|TRACE.*)"
)
_REFUSED = re.compile(
    r"authentication failed|could not read (username|password)|permission denied|access denied|not authorized"
    r"|host key verification failed|returned error: 40[13]|terminal prompts disabled|dubious ownership",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"couldn't find remote ref|not found|does not appear to be a git repository|does not exist", re.IGNORECASE
)
# Messages of a fetch into a clone that a power loss or a kill damaged: empty files, stale locks. A
# full disk does not count.
_DAMAGED = re.compile(
    r"^(?!remote:)(?!.*(no space left|quota|read-only file|denied)).*"
    r"(file exists|could not set|cannot lock ref|unable to resolve reference|reference broken|corrupt"
    r"|did not send all necessary objects|not a git repository: '|bad (config|object|tree|ref))",
    re.IGNORECASE,
)
_OTHER_FORMAT = re.compile(r"mismatched algorithms: client \w+; server (sha\w+)")


class GitFailed(Exception):
    """Error: a git command failed. The message is the last line of its standard error."""


class TreeTooLarge(GitFailed):
    """Error: a git command printed more than the limit."""


@dataclass(frozen=True, slots=True)
class Login:
    """User and token for a remote. If the token is empty, git uses its own credentials."""

    user: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True)
class Clone:
    """A bare clone in ``folder``, which the first fetch creates. ``seconds``: time limit of a fetch."""

    folder: Path
    url: str
    login: Login
    seconds: float

    def fetch(self, ref: str, local: str, *, shallow: bool) -> str:
        """Fetch a branch or tag of the remote, and return the hash of its commit.

        ``local``: name under which the clone keeps it. ``shallow``: whether to fetch only the newest commit.
        A damaged clone is created again. Raises NeedsHuman or Transient.
        """
        with self._alone():
            try:
                return self._fetch_ref(ref, local, shallow)
            except GitFailed as error:
                other = _OTHER_FORMAT.search(str(error))
                if not (other or _DAMAGED.search(str(error))):
                    raise self._unreachable(ref, str(error)) from error
                shutil.rmtree(self.folder, ignore_errors=True)  # the second attempt clones again
            try:
                return self._fetch_ref(ref, local, shallow, other[1] if other else None)
            except GitFailed as error:
                raise self._unreachable(ref, str(error)) from error

    def run(self, *arguments: str, most: int = MOST) -> bytes:
        """Run a git command on the clone, and return its output.

        Raises GitFailed, or TreeTooLarge after ``most`` bytes.
        """
        return _git([f"--git-dir={self.folder}", *arguments], {}, _LOCAL_SECONDS, most)

    def discard(self) -> None:
        """Remove a damaged clone; the next fetch makes a new one."""
        with self._alone():
            shutil.rmtree(self.folder, ignore_errors=True)

    def _fetch_ref(self, ref: str, local: str, shallow: bool, object_format: str | None = None) -> str:
        """Create the clone if it is missing, fetch a ref, and return its commit.

        ``object_format``: hash function of a new clone (sha1 or sha256); None is git's default.
        """
        depth = ["--depth=1"] if shallow else ["--update-shallow"]  # the remote may be a shallow clone itself
        form = [f"--object-format={object_format}"] if object_format else []
        quiet = ["--quiet", "--force", "--no-tags", "--no-write-fetch-head"]
        fetch = [f"--git-dir={self.folder}", "fetch", *quiet, *depth, "--", self.url]
        self.folder.mkdir(mode=0o700, exist_ok=True)  # an existing folder keeps its permissions
        _git(["init", "--quiet", "--bare", "--template=", *form, str(self.folder)], {}, _LOCAL_SECONDS)
        try:  # a branch wins over a tag of the same name
            branch = ref if ref == "HEAD" or ref.startswith("refs/") else f"refs/heads/{ref}"
            _git([*fetch, f"+{branch}:{local}"], self._remote(), self.seconds, program=_FETCH)
        except GitFailed as error:
            if branch == ref or "remote ref" not in str(error):
                raise
            _git([*fetch, f"+{ref}:{local}"], self._remote(), self.seconds, program=_FETCH)
        return self.run("rev-parse", "--verify", f"{local}^{{commit}}").decode().strip()

    def _remote(self) -> dict[str, str]:
        """Return environment variables that configure git for the remote.

        If there is a token, git gets it from a credential helper of ours, and asks no other helper.
        """
        settings = [("http.lowSpeedLimit", "1"), ("http.lowSpeedTime", _STALLED), ("gc.autoDetach", "false")]
        if self.login.token:
            parts = urlsplit(self.url)
            helper = f"credential.{parts.scheme}://{parts.netloc}.helper"
            settings += [("credential.helper", ""), (helper, ""), (helper, _HELPER)]
        numbered = {f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(settings)}
        numbered |= {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(settings)}
        login = {"INGESTOR_GIT_USER": self.login.user, "INGESTOR_GIT_TOKEN": self.login.token}
        return {**numbered, **login, "GIT_CONFIG_COUNT": str(len(settings))}

    def _unreachable(self, ref: str, words: str) -> Exception:
        """Return the error, with its remedy, for a fetch that failed. ``words``: what git printed."""
        if _REFUSED.search(words):
            return NeedsHuman(f"{self.url} refuses the login ({words}): check `token`, or this user's keys")
        if "single revision" in words:
            return NeedsHuman(f"{self.url} has no commit at {ref!r}: correct `ref`")
        if "remote ref HEAD" in words:
            return NeedsHuman(f"{self.url} has no commit, or its default branch does not exist: set `ref`")
        if "remote ref" in words:
            return NeedsHuman(f"{self.url} has no branch or tag {ref!r}: correct `ref`")
        if _MISSING.search(words):
            return NeedsHuman(
                f"{self.url} is not a git repository, or is private ({words}): correct `url` or `token`"
            )
        return Transient(f"{self.url} can't be fetched now, will be retried: {words}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the clone, because several sources and programs may share it.

        Raises NeedsHuman if that is impossible.
        """
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with hold_lock(f"{self.folder}.lock"):
                yield
        except OSError as error:
            reason = f"{error.strerror}: choose another folder with `cache`"
            raise NeedsHuman(f"the clone {self.folder} can't be written: {reason}") from error


def _git(
    arguments: Sequence[str],
    more: Mapping[str, str],
    seconds: float,
    most: int = MOST,
    program: Sequence[str] = ("git",),
) -> bytes:
    """Run a git command, and return its output.

    Values from the user's config must come after ``--`` in ``arguments``, or git may take them for options.

    ``more``: environment variables. ``seconds``: time limit. ``most``: limit of the output in bytes.
    ``program``: start of the command line. Raises NeedsHuman, GitFailed or TreeTooLarge.
    """
    try:
        run = Run((*program, *arguments), _environment(more), seconds, helpers_stay=True)
        return run.output(most, given=b"\n")
    except Missing as error:
        raise NeedsHuman("git is not installed: install it (apt-get install git)") from error
    except OutputTooLong:
        raise TreeTooLarge(f"git printed more than {most:,} bytes") from None
    except RanTooLong:
        raise GitFailed(f"git took longer than {seconds:g} s") from None
    except ProgramFailed as failed:
        raise GitFailed(_last_words(failed.words)) from None


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not _FOREIGN.fullmatch(key)}
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "LC_ALL": "C"}
    return {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=30", **kept, **quiet, **more}


def _last_words(words: str) -> str:
    """Return the line of git's standard error that has the reason, without the lines of advice after it."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ERROR:"))]
    telling = [line for line in fatal if _REFUSED.search(line) or _MISSING.search(line)]
    return next(iter(telling or fatal[-1:] or lines[-1:]), "git gave no reason")
