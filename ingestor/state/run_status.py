"""Small files in the state folder for other processes: progress, results of checks, and the config in force.

Progress and results are for display only; the journal decides. Only the lock of the state folder tells
whether a program runs.

The config file may have an error while a daemon keeps the config that it read before. So the daemon stores
the text of its config in the state folder, for commands: with references to secrets, without the secrets. A
file with an error may hide where the state folder is, so every word of the file that names a folder is tried.
Such a folder counts only if its stored config names this file and that folder. If the file has no error, only
its own state folder and the default one are tried. Other words may name folders on servers that are away.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
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
    """Progress of a running listing, written by the worker that lists and read by any thread.

    ``since``: POSIX seconds of its start. ``seen``: items so far. ``at``: key of the last item.
    """

    since: float
    seen: int = 0
    at: str = ""

    def note(self, item: Item) -> None:
        self.seen, self.at = self.seen + 1, item.key


@dataclass(frozen=True, slots=True)
class Live:
    """Progress of a running daemon or sync. Times are POSIX seconds."""

    started: float = 0.0
    at: float = 0.0
    pid: int = 0
    in_flight: dict[str, int] = field(default_factory=dict)  # documents by source
    waiting: int = 0  # documents due or in flight
    bytes_waiting: int = 0  # of these documents, as they are listed
    bytes_in_flight: int = 0
    tally: dict[str, int] = field(default_factory=dict)
    texts: int = 0  # texts embedded since the start, without cached ones
    texts_stepped: int = 0  # the same, with those of the round under way
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
    """Store the progress, in place of the last one. Raises OSError."""
    write_own(state / "live.json", json.dumps(asdict(live)))


def read_live(state: Path) -> Live:
    """Return the stored progress; an empty one if the file is missing or damaged."""
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
        """Return the number of texts of all documents, estimated from the documents that were read.

        The estimate is by listed bytes, since large documents are read last; by the number of documents if no
        size is listed.
        """
        read, known = self.bytes_read, self.bytes_known
        if not read:
            read, known = self.done + self.begun, self.done + self.waiting
        return (self.texts + self.left) * max(1.0, known / read if read else 1.0)

    @property
    def share(self) -> float:
        """Return the part of the work that is done, from 0 to 1.

        It is counted in embedded texts, or in documents if no text waits.
        """
        if not self.waiting:
            return 1.0
        documents = self.done / (self.done + self.waiting)
        embedded = self.texts / self.texts_expected if self.texts else documents
        return min(embedded, documents) if self.done and not self.left else embedded

    @property
    def rate(self) -> float | None:
        """Return the texts embedded in a second; None while that is unknown, or if no text waits."""
        waits, worked = self.left or not self.waiting, self.seconds - self.loaded
        return self.texts / worked if self.texts and waits and worked >= 1 else None

    @property
    def seconds_left(self) -> float | None:
        """Return the estimated seconds until the program has nothing to do; None while that is unknown."""
        worked = self.seconds - self.loaded
        if self.waiting and 0 < self.share < 1 and worked >= 1:
            return worked / self.share - worked
        return None


@dataclass(slots=True)
class Meter:
    """Computes the progress since the program last had nothing to do, and passes each one to ``show``."""

    show: Callable[[SyncProgress], None]
    _rest: Live = field(default_factory=Live)  # when the program last had nothing to do
    _begun: float | None = None  # POSIX seconds at which the first document waited after that
    _bytes: int = 0  # the most listed bytes that waited at once
    _loaded: float = 0.0  # POSIX seconds of the last call before the model could embed

    def __call__(self, live: Live) -> None:
        self._begun = live.at if self._begun is None else self._begun
        self._bytes = max(self._bytes, live.bytes_waiting)
        texts = live.texts_stepped - self._rest.texts_stepped
        self._loaded = live.at if live.loading and not texts else max(self._loaded, self._begun)
        self.show(
            SyncProgress(
                _count_done(live) - _count_done(self._rest),
                live.waiting,
                texts=texts,
                seconds=live.at - self._begun,
                listing=live.listing,
                left=live.texts_left,
                begun=sum(live.in_flight.values()),
                loading=live.loading,
                at=live.at,
                records=live.tally.get("records_added", 0) - self._rest.tally.get("records_added", 0),
                bytes_known=self._bytes,
                bytes_read=self._bytes - max(0, live.bytes_waiting - live.bytes_in_flight),
                loaded=self._loaded - self._begun,
            )
        )
        if not live.waiting:
            self._rest, self._begun, self._bytes = live, None, 0


def _count_done(live: Live) -> int:
    return sum(live.tally.get(kind, 0) for kind in ("added", "changed", "moved", "rebuilt", "removed"))


CHECK_PREFIX = "check-"  # begins the names of files with the results of checks


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The last result of an ``evaluate --check`` of a collection with a file of questions.

    ``recall``: from 0 to 1. ``fell``: by how much recall fell since the reference. ``at``: POSIX seconds.
    """

    collection: str
    questions: str
    recall: float
    fell: float
    passed: bool
    at: float


def write_check(state: Path, result: CheckResult) -> None:
    """Store a result, in place of an earlier one for the same collection and questions. Raises OSError."""
    name = f"{CHECK_PREFIX}{text_digest(json.dumps([result.collection, result.questions]))[:16]}.json"
    write_own(state / name, json.dumps(asdict(result)))


def read_checks(state: Path) -> list[CheckResult]:
    """Return the results of all checks, skipping damaged files."""
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


@dataclass(frozen=True, slots=True)
class InForce:
    """The config in force, which a running program may have read before the file was changed.

    ``error``: why the config file is not in force, or None. ``since``: POSIX seconds at which ``config`` took
    effect. ``restart``: the keys of the file that take effect at a restart only.
    """

    config: Config
    error: str | None = None
    since: float | None = None
    restart: tuple[str, ...] = ()


def keys_needing_restart(old: Config, new: Config) -> tuple[str, ...]:
    """Return the changed keys that take effect at a restart only.

    While there is any, the caller keeps the whole old config in force.
    """
    return tuple(key for key in _AT_START if getattr(old, key) != getattr(new, key))


def keep_config(config: Config, now: float) -> None:
    """Store the config in force, readable by its owner only. Errors of the disk are ignored.

    ``now``: POSIX seconds. The caller holds the lock of the state folder, so no other process writes the
    file.
    """
    value = {"file": str(config.origin.file), "text": config.origin.text, "since": now}
    with suppress(OSError):
        for unfinished in config.state.glob(f"{CONFIG_NAME}.*"):  # of writers that were killed
            unfinished.unlink(missing_ok=True)
        write_own(config.state / CONFIG_NAME, json.dumps(value))


def in_force(path: Path, env: Mapping[str, str]) -> InForce:
    """Return the config of the file; the running program's if the file has an error or needs a restart.

    Raises ConfigError if the file has an error and no program runs with it.
    """
    try:
        config = load(path, env)
    except ConfigError as error:
        running = _find_running(path, env, _words(path, env))
        if running is None:
            raise
        return InForce(running[0], str(error), running[1])
    running = _find_running(path, env, (str(config.state), _DEFAULT_STATE), config)
    restart = keys_needing_restart(running[0], config) if running is not None else ()
    if running is None or not restart:
        return InForce(config)
    why = (
        f"the config file differs in {', '.join(restart)}, which takes effect at a restart; the rest of the "
        "change waits until then"
    )
    return InForce(running[0], why, running[1], restart)


def config_file_in_use(state: Path) -> str | None:
    """Return the config file of the program that runs with this state folder; None if none runs."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        if is_held(state / "lock"):
            return _read_kept(state / CONFIG_NAME)["file"]
    return None


def _find_running(
    path: Path, env: Mapping[str, str], words: Iterable[str], read_now: Config | None = None
) -> tuple[Config, float] | None:
    """Return the config of the program that runs with this file, and the POSIX seconds of its start.

    ``words``: words of the file, of which one may name the state folder. ``read_now``: the file's own config,
    if it has no error. The same text is not checked twice, since checking takes most of the time.
    """
    for word in dict.fromkeys(words):
        with suppress(OSError, ValueError, KeyError, TypeError, RuntimeError, ConfigError, NeedsHuman):
            folder = Path(normpath(path.absolute().parent / Path(word).expanduser()))
            kept = _read_kept(folder / CONFIG_NAME)
            if kept["file"] != str(path.absolute()) or not is_held(folder / "lock"):
                continue
            same = read_now is not None and kept["text"] == read_now.origin.text
            config = read_now if read_now is not None and same else check_text(path, kept["text"], env)
            if config.state == folder:
                return config, float(kept["since"])
    return None


def _read_kept(file: Path) -> dict[str, str]:
    """Return the stored config. Raises OSError if it is missing, or if another user could have written it."""
    descriptor = open_own(file, os.O_RDONLY)
    with os.fdopen(descriptor) as stream:
        running = os.fstat(descriptor)
        if running.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
            raise PermissionError(f"{file} is another user's")
        if running.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"{file} could be anybody's")
        value: dict[str, str] = json.load(stream)
        return value


def _words(path: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the words of a config file that could name its state folder, then the default folder."""
    with suppress(ConfigError):
        for row in read_config(path).splitlines():
            value = row.partition(":")[2].partition(" #")[0].strip(" \t'\"")
            for word in (value, *re.split(r"[\s,{}\[\]'\"]+", row)):
                yield _VARIABLE.sub(lambda name: env.get(name[1], ""), word)
    yield _DEFAULT_STATE
