import errno
import io
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.core.document_json import decode, encode, pack
from ingestor.core.interruptions import Slow, Stopped
from ingestor.model import Blob, Block, Document
from ingestor.ports import BadDocument, Transient
from ingestor.registry import Options, find, kinds
from ingestor.sandbox import process as sandbox_process
from ingestor.sandbox.pool import Defect, Isolated, IsolatedIfLarge, Isolation
from ingestor.sandbox.process import Limits
from tests.bad_parser import installed
from tests.e2e.project import wait
from tests.parsers.files import docx, epub, odf, paragraph, pdf, pptx, shape, xlsx

Parse = Callable[..., str]


@pytest.fixture(scope="module", autouse=True)
def bad_parser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", installed(tmp_path_factory.mktemp("plugins")))
        yield


@pytest.fixture(scope="module")
def isolation() -> Iterator[Isolation]:
    """One process: what one test leaves behind meets the next one."""
    found = Isolation(Limits(memory=600_000_000, seconds=1, processes=1))
    yield found
    found.close()


@pytest.fixture
def parse(isolation: Isolation) -> Parse:
    def run(word: str, name: str = "a.bad") -> str:
        return isolation.parse("bad", Options(), Blob(word.encode(), name)).text

    return run


def test_a_document_comes_back_whole(isolation: Isolation) -> None:
    text = "words, 名前, 😀 and \0"
    found = Isolated("bad", Options(), isolation).parse(Blob(text.encode(), "n\udcff.bad"))
    assert found == Document(
        text, (Block("paragraph", 0, len(text), page=3),), extra=(("name", "n\udcff.bad"),)
    )


def test_a_process_is_used_again_until_it_has_grown(parse: Parse) -> None:
    ours = b"x" * 300_000_000  # what we hold is not what the process holds
    with pytest.raises(BadDocument):
        parse("segfault")
    first = parse("pid")
    del ours
    assert [parse("pid") for _ in range(3)] == [first] * 3
    assert parse("leak") == first
    parse("leak")
    assert parse("pid") != first


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("hang", r"took more than 1 s; raise parsing\.seconds, or exclude it"),
        ("eat", r"needed more than 0\.6 GB of memory; raise parsing\.memory, or exclude it"),
        ("segfault", r"the parser crashed \(SIGSEGV\); exclude it"),
        (
            "abort",
            r"crashed \(SIGABRT\), most likely because it needed more than 0.6 GB of memory; raise pars",
        ),
        ("exit", r"the parser crashed \(exit status 3\); exclude it"),
        ("recurse", r"is nested too deeply"),
        ("refuse", r"no good"),
    ],
)
def test_it_costs_one_document_with_its_reason(parse: Parse, deed: str, reason: str) -> None:
    with pytest.raises(BadDocument, match=f"^{reason}"):
        parse(deed)
    assert parse("the next one") == "the next one"


def test_what_waits_for_ever_is_ended(parse: Parse) -> None:
    begun = time.monotonic()
    with pytest.raises(BadDocument, match="took more than 1 s"):
        parse("sleep")
    assert time.monotonic() - begun >= 4, "other programs may have had the processor"


def test_defects_are_no_fault_of_the_document(parse: Parse) -> None:
    with pytest.raises(Defect, match=r"^ValueError: a defect") as defect:
        parse("fail")
    assert "in fail" in "".join(defect.value.__notes__)
    with pytest.raises(Defect, match="short of memory"):
        parse("kill")


def test_it_neither_reaches_the_network_nor_writes_files_nor_sees_secrets(
    parse: Parse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        passed = {*sandbox_process._PASSED, "PYTHON_TEST_PORT", "PYTHON_TEST_FILE"}
        monkeypatch.setattr(sandbox_process, "_PASSED", passed)
        monkeypatch.setenv("PYTHON_TEST_PORT", str(server.getsockname()[1]))
        monkeypatch.setenv("PYTHON_TEST_FILE", str(tmp_path / "big"))
        secrets = ("API_TOKEN", "LANGCHAIN_API_KEY", "HOMEBREW_TOKEN", "PATH_KEY", "PYTHON_TOKEN", "LD_KEY")
        for secret in secrets:
            monkeypatch.setenv(secret, "secret")
        with pytest.raises(BadDocument):
            parse("segfault")  # so that the next process sees this environment
        assert parse("network").startswith("refused")
        assert parse("write").startswith("refused")
        seen = parse("environment")
        assert [secret for secret in secrets if secret in seen] == []
        assert "PYTHONPATH" in seen


def test_the_second_best_guard_of_the_network_works() -> None:
    script = (
        "import socket, sys; from ingestor.confinement.walls import _refuse_network\n"
        "sys.addaudithook(_refuse_network)\n"
        "try: socket.create_connection(('127.0.0.1', 9))\n"
        "except PermissionError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "this process has no network\n"


def test_no_descriptor_of_ours_is_inherited_and_noise_does_no_harm(parse: Parse, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        with pytest.raises(BadDocument):
            parse("segfault")
        assert "lock" not in parse("descriptors")
    assert parse("chatter") == "quiet"


def test_a_document_does_not_pay_for_those_before_it(parse: Parse) -> None:
    parse("leak")
    assert parse("frail") == "well"


def test_documents_wait_for_their_turn() -> None:
    isolation = Isolation(Limits(processes=2))
    with ThreadPoolExecutor(8) as threads:
        blobs = [Blob(b"pid", f"{n}") for n in range(40)]
        found = list(threads.map(lambda blob: isolation.parse("bad", Options(), blob), blobs))
    isolation.close()
    assert len({document.text for document in found}) <= 2
    assert [dict(document.extra)["name"] for document in found] == [blob.name for blob in blobs]


def test_stopping_ends_a_document_under_way_and_the_processes(parse: Parse) -> None:
    isolation = Isolation(Limits(seconds=1000, processes=1))
    pid = int(isolation.parse("bad", Options(), Blob(b"pid", "a")).text)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(isolation.parse, "bad", Options(), Blob(b"sleep", "a"))
        wait(lambda: isolation._free.qsize() == 1)
        isolation.stop()
        with pytest.raises(Stopped):
            running.result(30)
    isolation.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_slow_document_ends_its_first_attempt_early_and_has_all_its_time_in_the_next() -> None:
    isolation = Isolation(Limits(seconds=2, processes=1))
    isolation.take_turns()
    hang = Blob(b"hang", "a")
    with pytest.raises(Slow, match="more than 1 s"):
        isolation.parse("bad", Options(), hang)
    with pytest.raises(BadDocument, match="took more than 2 s"):
        isolation.parse("bad", Options(), hang)
    isolation.close()


def test_slow_documents_leave_a_process_to_others() -> None:
    isolation = Isolation(Limits(seconds=30, processes=1))
    isolation.take_turns()
    isolation._first = 1.0
    slow = [Blob(b"sleep", name) for name in ("a", "b")]
    with ThreadPoolExecutor(2) as threads:
        with pytest.raises(Slow):
            isolation.parse("bad", Options(), slow[0])
        running = threads.submit(isolation.parse, "bad", Options(), slow[0])
        wait(lambda: isolation._free.qsize() == 1)
        assert isolation.parse("bad", Options(), Blob(b"the next one", "c")).text == "the next one"
        assert not running.done()
        isolation.close()
        with pytest.raises(Stopped):
            running.result(30)


def test_who_waits_for_a_process_is_known_to_rest() -> None:
    isolation, resting = Isolation(Limits(seconds=1000, processes=1)), list[str]()

    @contextmanager
    def rests() -> Iterator[None]:
        resting.append("begun")
        yield
        resting.append("ended")

    isolation.take_turns(rests)
    assert isolation.parse("bad", Options(), Blob(b"quick", "a")).text == "quick"
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(isolation.parse, "bad", Options(), Blob(b"sleep", "b"))
        wait(lambda: isolation._free.qsize() == 1)
        assert resting == []
        waiting = threads.submit(isolation.parse, "bad", Options(), Blob(b"next", "c"))
        wait(lambda: resting == ["begun"])
        isolation.close()
        for stopped in (running, waiting):
            with pytest.raises(Stopped):
                stopped.result(30)
    assert resting == ["begun", "ended"]


def test_large_texts_are_parsed_elsewhere_and_small_ones_here() -> None:
    plugin = find("parsers", "markdown")
    isolation = Isolation(Limits(processes=1))
    parser = IsolatedIfLarge(
        plugin.build(plugin.options()), Isolated("markdown", plugin.options(), isolation)
    )
    small, large = Blob(b"# Head\n\nText\n", "a.md"), Blob(b"# Head\n\n" + b"Text\n" * 20_001, "a.md")
    assert parser.parse(small) == plugin.build(plugin.options()).parse(small)
    assert not isolation._running
    assert parser.parse(large) == plugin.build(plugin.options()).parse(large)
    assert isolation._running
    isolation.close()


@pytest.mark.parametrize("deed", ["drip", "sleep"])
def test_no_process_holds_up_the_end(deed: str) -> None:
    """Whatever it does, and although nobody has taken back what it was asked."""
    isolation = Isolation(Limits(seconds=1000, processes=1))
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(isolation.parse, "bad", Options(), Blob(deed.encode(), "a"))
        wait(lambda: bool(isolation._running))
        (process,) = isolation._running
        begun = time.monotonic()
        isolation.close()
        with pytest.raises(Stopped):
            running.result(30)
        assert time.monotonic() - begun < 5
    assert process._child.returncode is not None
    assert not isolation._running


def test_an_answer_in_drops_is_ended_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_process, "PATIENCE", 1)
    isolation = Isolation(Limits(seconds=1, processes=1))
    with pytest.raises(BadDocument, match="took more than 1 s"):
        isolation.parse("bad", Options(), Blob(b"drip", "a"))
    isolation.close()


def test_what_announces_too_much_is_not_waited_for(parse: Parse) -> None:
    with pytest.raises(BadDocument, match=r"the parser's answer is too large \(536,870,912 bytes"):
        parse("boast")


def test_members_in_batches_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.sandbox.pool._MOST_BATCHES", 3)
    isolation = Isolation(Limits(processes=1))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for number in range(4000):
            archive.writestr(f"{number}.md", "")
    with pytest.raises(BadDocument, match="has no end"):
        isolation.unpack(Blob(data.getvalue(), "a.zip"), True)
    isolation.close()


def test_names_that_are_too_long_are_a_reason() -> None:
    isolation = Isolation(Limits(processes=1))
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("n" * 500_000))
    with pytest.raises(BadDocument, match="a name in it is too long"):
        isolation.unpack(Blob(data.getvalue(), "a.tar"), True)
    isolation.close()


PARENT = """
import os, sys
from ingestor.sandbox.pool import Isolation
from ingestor.sandbox.process import Limits
from ingestor.model import Blob
from ingestor.registry import Options, find, kinds
isolation = Isolation(Limits(seconds=1, processes=2))
print(isolation.parse("bad", Options(), Blob(b"pid", "a")).text, flush=True)
isolation.parse("bad", Options(), Blob(sys.argv[1].encode(), "a"))
sys.stdin.read()
"""


SLOW = [pytest.param(doing, marks=pytest.mark.slow) for doing in ("hang", "sleep")]


@pytest.mark.parametrize("doing", ["nothing", *SLOW])
def test_processes_end_with_a_parent_that_is_killed(doing: str) -> None:
    command = [sys.executable, "-c", PARENT, doing]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    wait(lambda: not _alive(pid), 60)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_terminal_s_interrupt_does_not_reach_them(isolation: Isolation, parse: Parse) -> None:
    assert os.getsid(int(parse("pid"))) != os.getsid(0)


def test_nothing_is_started_before_it_is_needed() -> None:
    before = set(_children())
    isolation = Isolation(Limits())
    assert set(_children()) == before
    isolation.close()


def _children() -> list[str]:
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()


def test_what_does_not_start_is_tried_again_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no python here >&2\nexit 5\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    isolation = Isolation(Limits(processes=1))
    with pytest.raises(Transient, match=r"does not start: .*exit status 5: no python here"):
        isolation.parse("bad", Options(), Blob(b"", "a"))
    isolation.close()


def test_why_a_process_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('this numpy is broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    isolation = Isolation(Limits(processes=1))
    with pytest.raises(Transient, match=r"does not start: .*this numpy is broken"):
        isolation.parse("bad", Options(), Blob(b"", "a"))
    isolation.close()


def test_without_a_temporary_folder_people_are_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "TemporaryFile", nowhere)
    isolation = Isolation(Limits(processes=1))
    with pytest.raises(Transient, match=r"can't be started: No usable .*make room .* or set TMPDIR"):
        isolation.parse("bad", Options(), Blob(b"", "a"))
    isolation.close()


texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
blocks = st.builds(
    Block,
    texts,
    st.integers(0),
    st.integers(0),
    st.integers(0, 6),
    title=st.none() | texts,
    page=st.none() | st.integers(0),
)


@given(
    st.builds(
        Document,
        texts,
        st.lists(blocks).map(tuple),
        texts,
        st.none() | texts,
        st.none() | texts,
        st.lists(st.tuples(texts, scalars)).map(tuple),
    )
)
def test_any_document_survives_the_pipe(document: Document) -> None:
    import json

    assert decode(json.loads(pack(encode(document)))) == document


SAMPLES = {
    "pdf": ("a.pdf", pdf([[(50, 700, 24, "Head"), (50, 650, 10, "It says little.")]])),
    "docx": ("a.docx", docx(paragraph("Text of it."))),
    "pptx": ("a.pptx", pptx("", shape("Title", placeholder="title") + shape("What it says."))),
    "xlsx": ("a.xlsx", xlsx({"Sums": "<row><c><v>1</v></c><c><v>2</v></c></row>" * 2})),
    "odf": ("a.odt", odf("text", "<text:h>Head</text:h><text:p>Text.</text:p>")),
    "epub": ("a.epub", epub({"a.xhtml": "<h1>Chapter</h1><p>Once.</p>"}, ["a.xhtml"])),
    "rtf": ("a.rtf", rb"{\rtf1\ansi Some text.\par}"),
    "html": ("a.html", b"<h1>Head</h1><p>Text and <code>code</code>.</p>"),
    "mail": ("a.eml", b"From: a@b.c\nSubject: Hello\nDate: Tue, 2 Jan 2024 03:04:05 +0000\n\nText.\n"),
    "code": ("a.rs", b"fn main() {\n    let a = 1;\n}\n"),
    "markdown": ("a.md", b"# Head\n\nText with `code`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"),
    "rst": ("a.rst", b"Head\n====\n\nText.\n"),
    "asciidoc": ("a.adoc", b"= Head\n\nText.\n"),
    "org": ("a.org", b"* Head\nText.\n"),
    "latex": ("a.tex", b"\\section{Head}\nText.\n"),
    "csv": ("a.csv", b"name,size\na,1\nb,2\n"),
    "json": ("a.json", b'{"a": {"b": 1}}\n'),
    "xml": ("a.xml", b"<a><b>Text.</b></a>"),
    "yaml": ("a.yaml", b"a:\n  b: 1\n"),
    "toml": ("a.toml", b"[a]\nb = 1\n"),
    "notebook": (
        "a.ipynb",
        b'{"nbformat": 4, "metadata": {}, "cells": [{"cell_type": "markdown", "source": "# A"}]}',
    ),
    "subtitles": ("a.srt", b"1\n00:00:01,000 --> 00:00:02,000\nText.\n"),
    "office97": ("a.doc", (Path(__file__).parents[1] / "parsers/old_office/harbours.doc").read_bytes()),
    "man": ("a.1", b".TH A 1\n.SH NAME\na \\- does little\n"),
    "mediawiki": ("a.wiki", b"== Head ==\nText.\n"),
    "docbook": ("a.dbk", b"<article><title>Head</title><para>Text.</para></article>"),
    "fb2": ("a.fb2", b"<FictionBook><body><section><p>Text.</p></section></body></FictionBook>"),
}
NEEDS_AN_EXTRA = {"image"}  # OCR; tests/parsers/pdf/test_ocr_extra.py installs it


def test_every_isolated_parser_works_behind_the_walls() -> None:
    """What they import late and open (grammars, fonts, native libraries) is to be had there."""
    isolated = {kind for kind in kinds("parsers") if getattr(find("parsers", kind).build, "isolated", False)}
    assert isolated == SAMPLES.keys() | NEEDS_AN_EXTRA
    isolation = Isolation(Limits(processes=1))
    for kind, (name, data) in SAMPLES.items():
        plugin, blob = find("parsers", kind), Blob(data, name)
        here = plugin.build(plugin.options()).parse(blob)
        assert isolation.parse(kind, plugin.options(), blob) == here
    isolation.close()
