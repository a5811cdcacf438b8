"""Command ``try``: indexes a sample of a folder, answers a question, and removes everything it wrote.

The answer comes in bounded time: indexing stops after ``BUDGET`` seconds, or at the first record if that
comes later. A shell in a session of its own waits for the end of this process and removes the temporary
folder, even after ``kill -9``.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ingestor.cli.usage import FAILED, JsonOption, command, fail, hide_secrets, quote

if TYPE_CHECKING:
    from ingestor.model import Item
    from ingestor.project import Project
    from ingestor.queries.status import SyncReport
    from ingestor.search.values import Answer
    from ingestor.state.run_status import SyncProgress

SAMPLE = 200  # documents
FIRST = 20  # documents that are indexed first, so that also a slow machine has a cross-section
BUDGET = 30.0  # seconds of indexing before the first answer
RETRIED = 1.0  # seconds for which a failure is retried, such as an unlistable folder
READ = 100  # documents that are read to estimate all documents
_PROBLEMS = 3  # that are printed with their reasons
LISTED = 200_000  # files after which the listing ends
PREFIX = "ingestor-try-"
_SPECIAL = re.compile(r"([\\*?\[\]!# ])")  # in a gitignore pattern


@dataclass(frozen=True, slots=True)
class Trial:
    """Findings of a trial.

    ``kinds``: number of documents by file extension. ``unsupported``: number of sampled documents that no
    parser reads, by extension. ``indexed``, ``chunks``, ``tokens``: numbers for the sample. ``seconds``: time
    until the answer. ``problems``: reasons, by the document or folder that has the problem. ``questions``:
    suggested questions. ``question``: the question that was asked.
    """

    folder: str
    documents: int
    kinds: dict[str, int]
    unsupported: dict[str, int]
    bytes: int
    indexed: int
    chunks: int
    tokens: int
    seconds: float
    problems: dict[str, str]
    questions: tuple[str, ...]
    question: str


def try_folder(
    folder: Annotated[Path, Argument(help="Folder with documents.")],
    ask: Annotated[
        str | None, Option(metavar="QUESTION", help="Question to answer; default: from a heading.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Try a folder: index a sample, answer a question.

    Prints the documents found, example questions, the answer, and an estimate for the whole folder. The index
    is deleted afterwards.
    """
    hide_secrets()
    if not folder.is_dir():
        fail(f"{str(folder)!r} is no folder: name one with documents, such as ~/notes")
    if ask is not None and not ask.strip():
        fail("--ask needs a question")
    with _temporary_folder() as place:
        _run(folder.resolve(), place, ask, as_json)


def _run(folder: Path, place: Path, ask: str | None, as_json: bool) -> None:
    """Run a trial, and print its findings.

    ``place``: the temporary folder. ``ask``: the question; None to ask one that a heading suggests.
    """
    from ingestor.cli.log import set_up
    from ingestor.cli.output import console, progress
    from ingestor.search.values import as_json as as_parsed
    from ingestor.units import quantity, size_in_words

    set_up("error", "text")
    begun = time.monotonic()
    with progress.busy("Listing", as_json):
        items, problems = _list_documents(_project(folder, place))
    if not items:
        why = f": {_join_reasons(problems)}" if problems else "; hidden and ignored files are left out"
        fail(f"{folder} has no documents{why}", FAILED)
    order = sorted(items, key=lambda item: blake2b(item.key.encode()).digest())[:SAMPLE]  # at random
    with progress.busy(f"Indexing a sample of {quantity(len(order), 'document')}", as_json) as note:
        reports = _index(folder, place, order, begun + BUDGET, note)
    with _project(folder, place, order) as project, progress.busy("Searching", as_json):
        status = project.status()
        problems |= {failure.document: failure.reason for failure in status.failures}
        unsupported = dict(status.sources["documents"].unsupported)
        if not status.collections["docs"].records:
            if unsupported:
                problems[_list_kinds(unsupported)] = "no parser reads them"
            reasons = f": {_join_reasons(problems)}" if problems else ""
            fail(f"no text was found in {folder}{reasons}", FAILED)
        questions = project.suggest()
        question = ask or (questions[0] if questions else "What is this about?")
        answer = project.search(question, n=3)
    trial = Trial(
        folder=str(folder),
        documents=len(items),
        kinds=dict(Counter(Path(item.key).suffix.lower() or "no ending" for item in items).most_common()),
        unsupported=unsupported,
        bytes=sum(item.size or 0 for item in items),
        indexed=status.sources["documents"].settled,
        chunks=status.collections["docs"].records,
        tokens=sum(report.embedded.tokens for report in reports),
        seconds=time.monotonic() - begun,
        problems=problems,
        questions=questions,
        question=question,
    )
    if not as_json:
        _show(trial, answer)
    with progress.busy("Estimating the whole folder", as_json):
        disk = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        plan = _project(folder, place).plan(sample=READ)  # reads further documents
        reading = sum(report.seconds for report in reports) + plan.needs.read_seconds
    whole: dict[str, Any] = {
        "documents": trial.documents,
        "records": trial.chunks + plan.records.added,
        "tokens": trial.tokens + plan.embed.tokens,
        "seconds": None if plan.seconds is None else reading + plan.seconds,
        "disk": disk + plan.needs.disk.total,
    }
    if as_json:
        print(json.dumps({**asdict(trial), "answer": as_parsed(answer), "whole": whole}))
        return
    spent = "" if plan.seconds is None else f", {console.duration(reading + plan.seconds)} on this machine"
    amount = f"{quantity(whole['records'], 'chunk')} and {quantity(whole['tokens'], 'token')}"
    documents, size = quantity(trial.documents, "document"), size_in_words(whole["disk"])
    print(f"The whole folder: {documents}, about {amount}{spent}, {size} on disk.")
    print("Nothing was kept. To index the folder and keep it in step:\n")
    print(f"  {command(f'init {quote(str(folder))}')} && {command('run')}")


def _show(trial: Trial, answer: "Answer") -> None:
    from ingestor.cli.output import console, excerpt
    from ingestor.units import quantity, size_in_words

    total = f"{quantity(trial.documents, 'document')} ({_list_kinds(trial.kinds)})"
    print(f"{trial.folder}: {total}, {size_in_words(trial.bytes)}")
    spent = console.duration(trial.seconds)
    print(f"Indexed {quantity(trial.indexed, 'document')} as {quantity(trial.chunks, 'chunk')}, in {spent}.")
    if trial.unsupported:
        print(f"No parser reads {_list_kinds(trial.unsupported)} of the sample.")
    for document, reason in islice(trial.problems.items(), _PROBLEMS):
        console.complain(document, reason)
    if (others := len(trial.problems) - _PROBLEMS) > 0:
        print(f"{others:,} more could not be read")
    if trial.questions:
        print("Headings that make good questions:")
        for each in trial.questions:
            print(f"  {each}")
    print(f"\nAnswer to {quote(trial.question)}:\n")
    excerpt.show_hits(answer, question=trial.question)


def _list_kinds(kinds: dict[str, int]) -> str:
    """Format numbers by file extension as ``12 .md, 3 .pdf``, for at most six extensions."""
    return ", ".join(f"{number:,} {kind}" for kind, number in islice(kinds.items(), 6))


def _join_reasons(problems: dict[str, str]) -> str:
    """Return the first three problems, with their reasons, in one line."""
    return "; ".join(f"{name}: {reason}" for name, reason in islice(problems.items(), 3))


def _project(folder: Path, place: Path, only: "list[Item] | None" = None) -> "Project":
    """Write the config of the trial into the temporary folder, and return the project.

    ``place``: the temporary folder. ``only``: the documents to index; None for all documents of the folder.
    """
    from ingestor.project import Project

    source: dict[str, object] = {
        "name": "documents",
        "kind": "folder",
        "path": str(folder),
        "collection": "docs",
        "exclude": [f"{PREFIX}*/"],
        "settle": "0s",
        "watch": "off",
    }
    if only is not None:
        source["include"] = ["/" + _SPECIAL.sub(r"\\\1", item.key) for item in only]
    config = {
        "state": str(place / "state"),
        "chroma": {"path": str(place / "chroma"), "embedded": True},
        "http": False,
        "sources": [source],
    }
    path = place / "config.yaml"
    path.write_text(json.dumps(config, ensure_ascii=False).replace("${", "$${"), "utf-8")
    return Project(path)


def _list_documents(project: "Project") -> "tuple[list[Item], dict[str, str]]":
    """Return the documents of the folder, and the subfolders that could not be listed, with reasons."""
    from ingestor.app.parts import build
    from ingestor.config.file import load
    from ingestor.ports import PartialScan

    (source,) = load(project.path, os.environ).sources
    items: list[Item] = []
    try:
        items += islice(build(source.connector).scan(), LISTED)
    except PartialScan as partial:
        return items, {f"{key}/": "could not be listed; make it readable" for key in partial.unknown}
    return items, {}


def _index(
    folder: Path, place: Path, order: "list[Item]", deadline: float, note: Callable[[str], None]
) -> "list[SyncReport]":
    """Index a few documents, then the others of the sample until the deadline.

    Return the report of each sync. ``order``: the sampled documents in random order. ``deadline``: monotonic
    seconds. ``note``: shows how far the work is.
    """
    from ingestor.ports import Stop
    from ingestor.queries.status import SyncReport
    from ingestor.units import quantity

    stop, reports = Stop(), list[SyncReport]()
    embedded = before = 0  # texts: in all, and at the last progress, which begins at zero several times

    def watch(progress: "SyncProgress") -> None:
        nonlocal embedded, before
        embedded += progress.texts - (before if progress.texts >= before else 0)
        before = progress.texts
        note(f"{quantity(embedded, 'text')} embedded")
        if time.monotonic() > deadline and (reports or progress.records):
            stop.set()

    for documents in (order[:FIRST], order):
        if not reports or (len(order) > FIRST and not stop.is_set()):
            project, before = _project(folder, place, documents), 0
            reports.append(project.sync(progress=watch, stop=stop, patience=RETRIED))
    return reports


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Create a temporary folder. Remove it when the context ends, and also if this process is killed.

    A shell waits at a pipe, which is closed when this process ends, and then removes the folder. The shell
    has a session of its own, so that signals to this process do not end it.
    """
    place = Path(tempfile.mkdtemp(prefix=PREFIX))
    sweep = 'cat >/dev/null; for _ in 1 2 3 4 5; do rm -rf -- "$0" && exit; sleep 1; done'
    sweeper = subprocess.Popen(  # noqa: S603 - a fixed program; the name is an argument of it
        ["/bin/sh", "-c", sweep, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    before, tempfile.tempdir = (tempfile.tempdir, os.environ.get("TMPDIR")), str(place)
    os.environ["TMPDIR"] = str(place)  # where libraries keep files that outlive the process
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield place
    finally:
        for number in handlers:
            signal.signal(number, signal.SIG_IGN)
        tempfile.tempdir, outside = before
        os.environ.pop("TMPDIR") if outside is None else os.environ.update(TMPDIR=outside)
        shutil.rmtree(place, ignore_errors=True)
        assert sweeper.stdin is not None
        sweeper.stdin.close()
        sweeper.wait()
        for number, handler in handlers.items():
            signal.signal(number, handler)
