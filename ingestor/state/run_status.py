"""Small files in the state folder for other processes: progress, results of checks, and the config in force.

Progress and results are only displayed; decisions depend on the journal alone. Whether a program runs is
known only by the lock of the state folder.

The config file may have an error while a daemon keeps the config that it read before. So the daemon stores
the text of its config in the state folder, for commands. The text has references to secrets, not the secrets.

The state folder is the one that the config file names, even in a file with an error, or the default one. A
folder counts only if its stored config names this file and that folder.
"""

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from os.path import normpath
from pathlib import Path

from ingestor.config.file import check_text, load
from ingestor.config.file import read as read_config
from ingestor.config.models import Config, ConfigError, Settings
from ingestor.core.fingerprint import text_digest
from ingestor.model import Item
from ingestor.ports import NeedsHuman
from ingestor.state.files import is_held, open_own, read_own, write_own


@dataclass(slots=True)
class RunningListing:
    """Progress of a running listing. The thread that lists writes it, and any thread reads it.

    ``since``: POSIX seconds of its start. ``seen``: number of items so far. ``at``: key of the last item.
    """

    since: float
    seen: int = 0
    at: str = ""

    def note(self, item: Item) -> None:
        self.seen, self.at = self.seen + 1, item.key


@dataclass(frozen=True, slots=True)
class Live:
    """Progress of a running daemon or sync, for other processes. Times are POSIX seconds."""

    started: float = 0.0
    at: float = 0.0
    pid: int = 0
    in_flight: dict[str, int] = field(default_factory=dict)  # documents by source
    waiting: int = 0  # documents due or in flight
    bytes_waiting: int = 0  # of these documents, as they are listed
    bytes_in_flight: int = 0
    tally: dict[str, int] = field(default_factory=dict)
    texts: int = 0  # texts embedded since the start, without cached ones
    texts_left: int = 0  # texts of documents that were read which are not embedded yet
    loading: bool = False  # whether a model is being loaded into memory
    tokens: int = 0
    embedding_seconds: float = 0.0
    embedding_cost: float = 0.0  # where the config has a price
    chroma: str = ""  # the address at which it listens
    listing: dict[str, RunningListing] = field(default_factory=dict)  # by source
    no_service: str = ""  # why there is no service port although the config wants one
    guard: str = ""  # how Chroma's port is guarded; "" where no server of ours runs
    config_error: str = ""  # why a changed config file was refused
    restart_pending: bool = False  # the config file takes effect at a restart
    state_error: str = ""  # why the state folder cannot be written
    unwritable: dict[str, str] = field(default_factory=dict)  # collections whose writes fail, with the reason
    isolation: str = ""  # how parsers are confined; "" before the first was started


def write_live(state: Path, live: Live) -> None:
    """Store the progress in the state folder, in place of the last one. Raises OSError."""
    write_own(state / "live.json", json.dumps(asdict(live)))


def read_live(state: Path) -> Live:
    """Return the progress stored in the state folder; an empty one if the file is missing or damaged."""
    try:
        stored = json.loads(read_own(state / "live.json"))
        listing = {name: RunningListing(**one) for name, one in stored.pop("listing", {}).items()}
        return Live(**stored, listing=listing)
    except (OSError, ValueError, TypeError, AttributeError):
        return Live()


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """Progress since the program last had nothing to do."""

    done: int = 0  # documents
    waiting: int = 0  # documents, with those that are being prepared
    texts: int = 0  # texts embedded
    seconds: float = 0.0  # since the program last had nothing to do
    listing: Mapping[str, RunningListing] = field(default_factory=dict)  # by source
    left: int = 0  # texts of documents that were read which are not embedded yet
    begun: int = 0  # documents that are being prepared
    loading: bool = False  # whether a model is being loaded into memory
    at: float = 0.0  # POSIX seconds
    records: int = 0  # records added
    bytes_known: int = 0  # listed sizes of the documents done, begun and waiting
    bytes_read: int = 0  # listed sizes of the documents done and begun
    loaded: float = 0.0  # the part of ``seconds`` before the model could embed

    @property
    def texts_expected(self) -> float:
        """Return an estimate of how many texts all documents have together, from the documents read so far.

        It is in proportion to the listed bytes, since large documents are read last. If no sizes are listed,
        it is in proportion to the number of documents.
        """
        read, known = self.bytes_read, self.bytes_known
        if not read:
            read, known = self.done + self.begun, self.done + self.waiting
        return (self.texts + self.left) * max(1.0, known / read if read else 1.0)

    @property
    def share(self) -> float:
        """Return the finished part of the work, from 0 to 1.

        It is measured in embedded texts, or in documents if no text waits to be embedded.
        """
        if not self.waiting:
            return 1.0
        documents = self.done / (self.done + self.waiting)
        embedded = self.texts / self.texts_expected if self.texts else documents
        return min(embedded, documents) if self.done and not self.left else embedded

    @property
    def rate(self) -> float | None:
        """Return how many texts are embedded in a second; None if unknown, or if no text waits to be
        embedded."""
        waits, worked = self.left or not self.waiting, self.seconds - self.loaded
        return self.texts / worked if self.texts and waits and worked >= 1 else None

    @property
    def seconds_left(self) -> float | None:
        """Return the estimated seconds until the program has nothing left to do; None if unknown."""
        worked = self.seconds - self.loaded
        if self.waiting and 0 < self.share < 1 and worked >= 1:
            return worked / self.share - worked
        return None


class Meter:
    """Measures the progress since the program last had nothing to do."""

    def __init__(self) -> None:
        self._rest = Live()  # when the program last had nothing to do
        self._begun: float | None = None  # POSIX seconds at which the first document waited after that
        self._bytes = 0  # the most listed bytes that waited at once
        self._loaded = 0.0  # POSIX seconds of the last call before the model could embed

    def measure(self, live: Live) -> SyncProgress:
        """Return the progress of the present work."""
        self._begun = live.at if self._begun is None else self._begun
        self._bytes = max(self._bytes, live.bytes_waiting)
        texts = live.texts - self._rest.texts
        self._loaded = live.at if live.loading and not texts else max(self._loaded, self._begun)
        records = live.tally.get("records_added", 0) - self._rest.tally.get("records_added", 0)
        read = self._bytes - max(0, live.bytes_waiting - live.bytes_in_flight)
        progress = SyncProgress(
            _count_done(live) - _count_done(self._rest), live.waiting, texts, live.at - self._begun,
            live.listing, live.texts_left, sum(live.in_flight.values()), live.loading, live.at, records,
            self._bytes, read, self._loaded - self._begun,
        )  # fmt: skip
        if not live.waiting:
            self._rest, self._begun, self._bytes = live, None, 0
        return progress


def _count_done(live: Live) -> int:
    return sum(live.tally.get(kind, 0) for kind in ("added", "changed", "moved", "rebuilt", "removed"))


CHECK_PREFIX = "check-"  # begins the names of files with the results of checks


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of the last ``evaluate --check`` of a collection with a file of questions.

    ``recall``: from 0 to 1. ``fell``: by how much the recall is lower than that of the reference. ``at``:
    POSIX seconds.
    """

    collection: str
    questions: str
    recall: float
    fell: float
    passed: bool
    at: float


def write_check(state: Path, result: CheckResult) -> None:
    """Store the result of a check, in place of an earlier one of the same collection and questions.

    Raises OSError.
    """
    name = f"{CHECK_PREFIX}{text_digest(json.dumps([result.collection, result.questions]))[:16]}.json"
    write_own(state / name, json.dumps(asdict(result)))


def read_checks(state: Path) -> list[CheckResult]:
    """Return the stored results of all checks. Damaged files are left out."""
    checks = list[CheckResult]()
    for file in state.glob(f"{CHECK_PREFIX}*.json"):
        with suppress(OSError, ValueError, TypeError):
            checks.append(CheckResult(**json.loads(read_own(file))))
    return sorted(checks, key=lambda each: (each.collection, each.questions))


CONFIG_NAME = "config-in-force.json"
# Keys of the config that take effect at a start only.
_AT_START = ("state", "chroma", "http", "parsing", "workers")
_DEFAULT_STATE = str(Settings.model_fields["state"].default)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_STATE = re.compile(r"^state:[ \t]*(\S[^ \t#\n]*+(?:[ \t]++[^ \t#\n]++)*+)[ \t]*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class InForce:
    """The config in force. A running program may have read it before the config file was changed.

    ``error``: why the config file is not in force; None if it is. ``since``: POSIX seconds at which
    ``config`` took effect. ``restart``: the changed keys of the file that take effect only at a restart.
    """

    config: Config
    error: str | None = None
    since: float | None = None
    restart: tuple[str, ...] = ()


def keys_needing_restart(old: Config, new: Config) -> tuple[str, ...]:
    """Return the changed keys of a config that take effect only at a restart.

    If there are any, the caller keeps the whole old config in force.
    """
    return tuple(key for key in _AT_START if getattr(old, key) != getattr(new, key))


def keep_config(config: Config, now: float) -> None:
    """Store the config in force for commands, readable only by this user. Errors of the disk are ignored.

    ``now``: POSIX seconds. The caller must hold the lock of the state folder, so that no other process writes
    the file.
    """
    value = {"file": str(config.origin.file), "text": config.origin.text, "since": now}
    with suppress(OSError):
        write_own(config.state / CONFIG_NAME, json.dumps(value))


def in_force(path: Path, env: Mapping[str, str]) -> InForce:
    """Return the config in force for a config file.

    This is the config of the running program if the file has an error or needs a restart, else that of the
    file. Raises ConfigError if the file has an error and no program runs with it.
    """
    try:
        config = load(path, env)
    except ConfigError as error:
        if (running := _find_running(path, env, _state_folders(path, env))) is None:
            raise
        return replace(running, error=str(error))
    running = _find_running(path, env, (str(config.state), _DEFAULT_STATE), config.origin.text)
    restart = () if running is None else keys_needing_restart(running.config, config)
    if running is None or not restart:
        return InForce(config)
    why = (
        f"the config file differs in {', '.join(restart)}, which takes effect at a restart; the rest of the "
        "change waits until then"
    )
    return replace(running, error=why, restart=restart)


def config_file_in_use(state: Path) -> str | None:
    """Return the path of the config file of the program that uses this state folder; None if none runs."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        if is_held(state / "lock"):
            return _read_kept(state / CONFIG_NAME)["file"]
    return None


def _find_running(
    path: Path, env: Mapping[str, str], folders: Iterable[str], text: str | None = None
) -> InForce | None:
    """Return the config of the program that runs with this config file; None if no program does.

    ``folders``: paths, one of which may be that of the state folder. ``text``: the text of the file, if it
    has no error; a program with this text is not returned.
    """
    for name in dict.fromkeys(folders):
        with suppress(OSError, ValueError, KeyError, TypeError, RuntimeError, ConfigError, NeedsHuman):
            folder = Path(normpath(path.absolute().parent / Path(name).expanduser()))
            kept = _read_kept(folder / CONFIG_NAME)
            if kept["file"] != str(path.absolute()) or kept["text"] == text or not is_held(folder / "lock"):
                continue
            config = check_text(path, kept["text"], env)
            if config.state == folder:
                return InForce(config, since=float(kept["since"]))
    return None


def _read_kept(file: Path) -> dict[str, str]:
    """Return the file of a stored config as keys and values.

    Raises OSError if it is missing, or if another user could have written it.
    """
    descriptor = open_own(file, os.O_RDONLY)
    with os.fdopen(descriptor) as stream:
        running = os.fstat(descriptor)
        if running.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
            raise PermissionError(f"{file} belongs to another user")
        if running.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"other users can write to {file} (run chmod go-w): it is not used")
        value: dict[str, str] = json.load(stream)
        return value


def _state_folders(path: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the state folder that a config file with an error names, then the default one."""
    with suppress(ConfigError):
        for value in _STATE.findall(read_config(path)):
            yield _VARIABLE.sub(lambda name: env.get(name[1], ""), value.strip("'\""))
    yield _DEFAULT_STATE
