"""A cluster that adds and removes nodes by itself: what documents wait for is its demand."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ingestor.config.workers import Workers
from ingestor.nodes.cluster import connect
from tests.e2e.project import Project
from tests.nodes.autoscaling import autoscaling, nodes
from tests.nodes.test_ray_runs import ODD, by_threads, project, synced, write
from tests.plugins import installed
from tests.waiting import wait

pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

TRACED = """
import json, os
from ingestor.embedders.hashing import PLUGIN as HASHING
from ingestor.registry import Options, Plugin, pinned, tuning

class TracedOptions(Options):
    dimensions: int = 64
    device: str = pinned("auto")
    trace: str = tuning("")

class Traced:
    def __init__(self, options):
        self._options = options
        self._inner = HASHING.build(HASHING.options(dimensions=options.dimensions))
        self.dimensions, self.window, self.count = options.dimensions, self._inner.window, self._inner.count
        self.identity = {"device": options.device}
    def embed(self, texts):
        with open(self._options.trace, "a") as trace:
            device, seen = self._options.device, os.environ.get("CUDA_VISIBLE_DEVICES")
            trace.write(json.dumps([device, seen, os.environ.get("RAY_NODE_TYPE_NAME")]) + "\\n")
        return self._inner.embed(texts)

PLUGIN = Plugin(kind="traced", version=1, options=TracedOptions, build=Traced)
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunker ``odd`` and the embedder ``traced``, for the daemon and the nodes."""
    folders = [
        installed(tmp_path / "plugins", "chunkers", "odd", "odd_chunker", ODD),
        installed(tmp_path / "plugins", "embedders", "traced", "traced_embedder", TRACED),
    ]
    before = [each for each in [os.environ.get("PYTHONPATH")] if each]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(dict.fromkeys([*folders, *before])))


def scaled(folder: Path, address: str, **settings: Any) -> Project:
    """More processes than the cluster ever has CPUs."""
    workers = {"kind": "ray", "address": address, "count": 4}
    return Project(folder, {"workers": {**workers, **settings.pop("workers", {})}, **settings})


def test_documents_bring_nodes_up_and_rest_lets_them_go(tmp_path: Path) -> None:
    """Twice, in one life of the daemon; the records are those of one process."""
    with autoscaling(tmp_path / "cluster") as address:
        one = scaled(tmp_path / "ray", address)
        write(one, 6)
        daemon = one.start(as_people_do=True)
        try:
            with connect(Workers(kind="ray", address=address)) as cluster:
                assert not nodes(cluster.ray)
                for documents in (6, 9):
                    write(one, documents)
                    wait(lambda: nodes(cluster.ray))
                    wait(lambda documents=documents: one.settled(documents))  # type: ignore[misc]
                    wait(lambda: not nodes(cluster.ray))
            assert daemon.stop() == 0
        finally:
            daemon.kill()
    assert "process ended while preparing the document" not in daemon.said()
    again = one.essence()
    one.settings["chroma"] = {"path": "./chroma", "embedded": True}
    assert again == by_threads(one).essence()


@pytest.mark.usefixtures("plugins")
def test_node_joining_later_is_checked(tmp_path: Path) -> None:
    with autoscaling(tmp_path / "cluster", ODD_VERSION="2") as address:
        one = project(tmp_path / "ray", None, address=address, chunking={"strategy": "odd"})
        write(one, 2)
        done = one.call("sync", "--json", env={})
        status = json.loads(one.call("status", "--json", env={}).stdout)
    assert done.returncode != 0
    assert [json.loads(line) for line in done.stdout.splitlines()], "Ray writes between our lines"
    assert "strategy odd" in done.stderr
    assert "no more work is sent to this node" in done.stderr
    assert "Traceback" not in done.stderr
    assert not status["sources"]["docs"]["settled"]


@pytest.mark.usefixtures("plugins")
def test_processes_that_embed_get_the_gpu_of_a_node(tmp_path: Path) -> None:
    """As Ray counts GPUs: there is none. The node type with one is asked for, and the device is handed on."""
    trace, kinds = tmp_path / "trace", {"cpu": {"CPU": 2}, "gpu": {"CPU": 1, "GPU": 1}}
    embedding = {"kind": "traced", "device": "cuda", "trace": str(trace)}
    with autoscaling(tmp_path / "cluster", kinds, most=1) as address:
        workers = {"embedder_gpus": 1, "embedder_cpus": 0.5, "count": 2}
        one = scaled(
            tmp_path / "ray", address, workers=workers, embedding=embedding,
            chroma={"path": "./chroma", "embedded": True},
        )  # fmt: skip
        write(one, 4)
        synced(one)
    assert {*trace.read_text().splitlines()} == {json.dumps(["cuda", "0", "gpu"])}
    assert one.essence() == by_threads(one).essence()
