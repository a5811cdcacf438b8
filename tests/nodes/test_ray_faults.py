"""What else may befall a cluster: its head dies, a node stands still or has no memory; and Ray's client."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.cluster import cluster
from tests.nodes.test_ray_runs import ODD, at_work, by_threads, project, synced, with_whole_cpus, write
from tests.plugins import installed
from tests.serving import free_port
from tests.waiting import wait

pytest.importorskip("ray", reason="the extra ray is not installed")
SHARE = 0.06  # of the machine's memory: how much more than now Ray allows
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def plugin(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunker ``odd``, for the daemon and the nodes."""
    folder = installed(tmp_path_factory.mktemp("odd"), "chunkers", "odd", "odd_chunker", ODD)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")])))


def slowly(folder: Path, pause: float = 0.5) -> tuple[dict[str, Any], Path]:
    """A strategy that takes its time, and the file with a letter for each document begun."""
    trace = folder / "trace"
    trace.touch()
    return {"strategy": "odd", "pause": pause, "trace": str(trace)}, trace


def test_death_of_rays_head_loses_no_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs ends and says why; with another head, the next run does the rest."""
    odd, trace = slowly(tmp_path, 1.0)
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    with cluster(nodes=2, cpus=1) as first:
        one = project(tmp_path / "ray", first, count=2, chunking=odd)
        write(one, 80)
        running = at_work(one, trace, 6)
        first.head_node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)
        try:
            code = running.wait(300)
        finally:
            running.kill()
    assert code != 0, (one.folder / "log").read_text()
    with cluster(nodes=1, cpus=1) as second:
        again = project(tmp_path / "ray", second, count=2, chunking=odd)
        synced(again)
    assert again.essence() == by_threads(again).essence()


def test_hanging_process_delays_one_document_only(tmp_path: Path) -> None:
    odd, trace = slowly(tmp_path, 0.2)
    with cluster(nodes=2, cpus=1) as raylets:
        one = project(tmp_path / "ray", raylets, count=2, chunking=odd)
        write(one, 30)
        running = at_work(one, trace, 6)
        stopped = processes("Preparing")[0]
        os.kill(stopped, signal.SIGSTOP)
        try:
            wait(lambda: trace.stat().st_size >= 29)
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert running.wait(240) == 0, (one.folder / "log").read_text()
    assert one.essence() == by_threads(one).essence()


def processes(work: str) -> list[int]:
    """Return ids of processes for this work, also of those that start."""
    listed = subprocess.run(["pgrep", "-f", f"^ray::{work}Process"], capture_output=True, text=True)
    return [int(number) for number in listed.stdout.split()]


def test_processes_killed_while_they_start_cost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One on each node in the check, and one that gets a document; each while it loads its plugin."""
    starts = tmp_path / "starts"
    starts.write_text("xxx")
    monkeypatch.setenv("ODD_STARTS", str(starts))
    with cluster(nodes=2, cpus=1) as raylets:
        one = project(tmp_path / "ray", raylets, chunking={"strategy": "odd"})
        write(one, 6)
        done = one.call("sync", "--json", env={})
    assert (done.returncode, starts.read_text()) == (0, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert one.essence() == by_threads(one).essence()


def test_cluster_of_one_cpu_prepares_and_embeds_in_one_process(tmp_path: Path) -> None:
    with cluster(nodes=1, cpus=1) as raylets:
        one = with_whole_cpus(tmp_path / "ray", raylets)
        write(one, 8)
        synced(one)
    assert one.essence() == by_threads(one).essence()


@pytest.mark.parametrize("lost", ["Preparing", "Embedding"])
def test_node_lost_at_work_leaves_one_cpu_which_continues(tmp_path: Path, lost: str) -> None:
    """Of two nodes of one CPU each, one prepares and the other embeds; either agent is killed."""
    odd, trace = slowly(tmp_path, 0.2)
    with cluster(nodes=2, cpus=1) as raylets:
        one = with_whole_cpus(tmp_path / "ray", raylets, chunking=odd)
        write(one, 40)
        running = at_work(one, trace, 6)
        try:
            agent = int(Path(f"/proc/{processes(lost)[0]}/stat").read_text().rsplit(")", 1)[1].split()[1])
            os.kill(agent, signal.SIGKILL)
            code = running.wait(300)
        finally:
            running.kill()
        log = (one.folder / "log").read_text()
    assert code == 0, log
    assert log.count("no node had room") <= 1
    assert one.essence() == by_threads(one).essence()


def test_documents_are_prepared_through_rays_client(tmp_path: Path) -> None:
    port = free_port()
    with cluster(nodes=1, cpus=1, ray_client_server_port=port) as raylets:
        one = project(
            tmp_path / "ray", raylets, address=f"ray://127.0.0.1:{port}", chunking={"strategy": "odd"}
        )
        write(one, 6)
        synced(one)
    assert one.essence() == by_threads(one).essence()


def test_document_filling_the_memory_of_a_node_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray ends its process before the node suffers."""
    total, available = memory("MemTotal"), memory("MemAvailable")
    monkeypatch.setenv("RAY_memory_usage_threshold", f"{1 - available / total + SHARE:.3f}")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "100")
    odd = {"strategy": "odd", "fill": int(2 * SHARE * total)}
    with cluster(nodes=2, cpus=1) as raylets:
        one = project(tmp_path / "ray", raylets, chunking=odd)
        write(one, 6)
        (one.docs / "bad.md").write_text("FILL MEMORY")
        done = one.call("sync", "--json", env={})
    status = json.loads(one.call("status", "--json", env={}).stdout)
    docs, failures = status["sources"]["docs"], status["failures"]
    assert "the node ran out of memory" in done.stderr
    assert docs["settled"] == 6
    assert [failure["document"] for failure in failures] == ["bad.md"]


def memory(name: str) -> int:
    """Bytes of this machine."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024
