"""Nodes with a network of their own, and a cable that is cut."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.project import INGESTOR, Project
from tests.nodes.cluster import QUIET, STORE
from tests.nodes.test_ray_runs import ODD, by_threads, write
from tests.plugins import installed
from tests.waiting import LONG, wait

pytest.importorskip("ray", reason="the extra ray is not installed")
HEAD, NODES = "10.77.0.1", ("10.77.0.2", "10.77.0.3")
UP = "Ray runtime started"
SOON = {  # Ray's patience with a node that says nothing; without these, about a minute
    "RAY_health_check_initial_delay_ms": "3000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "4",
}


def ip(*words: str) -> bool:
    return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0


def _can() -> bool:
    if os.geteuid() or shutil.which("ip") is None or not ip("netns", "add", "ray-can"):
        return False
    can = ip("-n", "ray-can", "link", "add", "cable", "type", "veth", "peer", "name", "eth")
    ip("netns", "del", "ray-can")
    return can


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _can(), reason="needs root, and network namespaces"),
]


@pytest.fixture
def namespaces() -> Iterator[str]:
    """The head's, with a bridge; a cable leads from it to each node's, the first to ``ray-2``."""
    with ExitStack() as undo:
        for name in ("ray-1", "ray-2", "ray-3"):
            assert ip("netns", "add", name)
            undo.callback(ip, "netns", "del", name)
            assert ip("-n", name, "link", "set", "lo", "up")
        assert ip("-n", "ray-1", "link", "add", "bridge", "type", "bridge")
        assert ip("-n", "ray-1", "addr", "add", f"{HEAD}/24", "dev", "bridge")
        assert ip("-n", "ray-1", "link", "set", "bridge", "up")
        for number, address in enumerate(NODES, 2):
            there, cable = f"ray-{number}", f"cable-{number}"
            assert ip(
                "-n", "ray-1", "link", "add", cable, "type", "veth", "peer", "name", "eth", "netns", there
            )
            assert ip("-n", "ray-1", "link", "set", cable, "master", "bridge", "up")
            assert ip("-n", there, "addr", "add", f"{address}/24", "dev", "eth")
            assert ip("-n", there, "link", "set", "eth", "up")
        yield "ray-1"


def started(name: str, log: Path, *words: str) -> subprocess.Popen[bytes]:
    """A program in a namespace, in a group of its own."""
    alone = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # on loopback, which leads to no other namespace
    environment = {name: value for name, value in {**os.environ, **QUIET, **SOON}.items() if name != alone}
    with log.open("ab") as stream:
        return subprocess.Popen(
            ["ip", "netns", "exec", name, *words],
            stdout=stream, stderr=stream, start_new_session=True, env=environment,
        )  # fmt: skip


def is_decided(node: subprocess.Popen[bytes], log: Path, up: int) -> bool:
    return log.read_text().count(UP) > up or node.poll() is not None


def joined(undo: ExitStack, name: str, log: Path, *words: str) -> None:
    """A node that is up. It is begun again where Ray gave up: a raylet waits 15 seconds for the agents beside
    it and no longer (ray-project/ray issue 65983), and on a busy machine these take more to start.
    """
    up = log.read_text().count(UP) if log.exists() else 0
    for _ in range(4):
        node = started(name, log, *words)
        undo.callback(ended, node)
        wait(partial(is_decided, node, log, up))
        if node.poll() is None:
            return
        ended(node)
    raise AssertionError(log.read_text())


def ended(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LONG)


def test_cut_connection_loses_no_document(
    tmp_path: Path, namespaces: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = installed(tmp_path / "odd", "chunkers", "odd", "odd_chunker", ODD)
    monkeypatch.setenv("PYTHONPATH", plugin)
    trace = tmp_path / "trace"
    trace.touch()
    ray = {"kind": "ray", "address": f"{HEAD}:6379", "count": 4, "cpus": 0.5, "embedders": 0}
    odd = {"strategy": "odd", "pause": 1.0, "trace": str(trace)}
    one = Project(
        tmp_path / "ray", {"workers": ray, "chroma": {"path": "./chroma", "embedded": True}, "chunking": odd}
    )
    write(one, 30)
    program, log = Path(sys.executable).with_name("ray"), tmp_path / "ray.log"
    common = (f"--object-store-memory={STORE}", "--block")
    with ExitStack() as undo:
        joined(
            undo, namespaces, log, str(program), "start", "--head", f"--node-ip-address={HEAD}",
            "--port=6379", "--num-cpus=0", "--include-dashboard=false", *common,
        )  # fmt: skip
        for number, address in enumerate(NODES, 2):
            joined(
                undo, f"ray-{number}", log, str(program), "start", f"--address={HEAD}:6379",
                f"--node-ip-address={address}", "--num-cpus=1", *common,
            )  # fmt: skip
        said = one.folder / "log"
        sync = started(namespaces, said, str(INGESTOR), "sync", "--config", str(one.config))
        undo.callback(ended, sync)
        wait(lambda: trace.stat().st_size >= 8 or sync.poll() is not None)
        assert sync.poll() is None, said.read_text()
        assert ip("-n", "ray-1", "link", "set", "cable-2", "down")
        assert sync.wait(400) == 0, said.read_text()
    assert "the node was lost" in said.read_text()
    assert "_ray_" not in said.read_text(), "a field of Ray's in the log"
    assert one.essence() == by_threads(one).essence()
