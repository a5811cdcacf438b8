"""A real Ray cluster that starts with its head alone, and adds and removes nodes by itself.

Its nodes are raylets of this machine, made by a provider that Ray has for tests. Ray's own
``AutoscalingCluster`` is not used: it needs a file that Ray's wheel lacks, and ends every Ray of the machine.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.nodes.cluster import QUIET, STORE
from tests.serving import free_port
from tests.waiting import wait

RAY = Path(sys.executable).with_name("ray")
PROVIDER = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
HEAD = "fffffffffffffffffffffffffffffffffffffffffffffffffff00000"
MARK = "INGESTOR_TEST_CLUSTER"  # in the environment of all that belongs to a cluster
KINDS = {"cpu": {"CPU": 1}}


@contextmanager
def autoscaling(
    folder: Path,
    kinds: Mapping[str, Mapping[str, float]] = KINDS,
    idle: float = 5.0,
    most: int = 3,
    **more: str,
) -> Iterator[str]:
    """The address of its head.

    ``kinds``: what nodes have; ``most``: nodes of a kind; ``idle``: seconds after which one is removed;
    ``more``: of their environment.
    """
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "autoscaling.json"
    config.write_text(json.dumps(_config(port, kinds, idle, most)))
    own = {
        **os.environ, **QUIET, **more, MARK: str(folder), "RAY_FAKE_CLUSTER": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_enable_autoscaler_v2": "1",
        "RAY_CLOUD_INSTANCE_ID": HEAD, "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD,
    }  # fmt: skip
    options = [
        "--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=0",
        "--include-dashboard=false", f"--object-store-memory={STORE}", f"--autoscaling-config={config}",
    ]  # fmt: skip
    try:
        with (folder / "ray.log").open("wb") as log:
            subprocess.run([RAY, "start", *options], env=own, stdout=log, stderr=log, check=True)
        yield f"127.0.0.1:{port}"
    finally:
        for _ in range(2):  # those that start others first
            for pid in members(folder):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        wait(lambda: not members(folder), 60)


def nodes(connected: Any) -> list[dict[str, float]]:
    """What living nodes have, beside the head."""
    alive = [each["Resources"] for each in connected.nodes() if each["Alive"]]
    return [has for has in alive if "node:__internal_head__" not in has]


def members(folder: Path) -> list[int]:
    """Processes of the cluster."""
    word, found = f"{MARK}={folder}\0".encode(), list[int]()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if word in (entry / "environ").read_bytes() and _runs(entry):
                found.append(int(entry.name))
    return found


def _runs(entry: Path) -> bool:
    return (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def _config(port: int, kinds: Mapping[str, Mapping[str, float]], idle: float, most: int) -> dict[str, Any]:
    workers = {
        name: {
            "resources": {**has, "object_store_memory": STORE}, "node_config": {},
            "min_workers": 0, "max_workers": most,
        }
        for name, has in kinds.items()
    }  # fmt: skip
    return {
        "cluster_name": "test",
        "max_workers": most * len(kinds),
        "provider": {
            "type": "external", "module": PROVIDER, "gcs_address": f"127.0.0.1:{port}", "head_node_id": HEAD,
            "launch_multiple": True,
        },
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}, **workers,
        },
        "head_node_type": "ray.head.default",
        "upscaling_speed": 10.0,
        "idle_timeout_minutes": idle / 60,
        "auth": {},
        "file_mounts": {},
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [],
        "rsync_filter": [],
        "initialization_commands": [],
        "setup_commands": [],
        "head_setup_commands": [],
        "worker_setup_commands": [],
        "head_start_ray_commands": [],
        "worker_start_ray_commands": [],
    }  # fmt: skip
