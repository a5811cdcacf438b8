"""A real Ray cluster of several raylets on this machine, on loopback alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STORE = 80 * 2**20  # bytes of each node's object store; Ray takes no less
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",  # nobody else reaches loopback
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # loopback alone
    "RAY_DISABLE_IMPORT_WARNING": "1",
}

os.environ.update(QUIET)  # Ray reads some of them when it is imported


@contextmanager
def cluster(nodes: int = 2, cpus: int = 2, **head: Any) -> Iterator[Any]:
    """Its head has no CPUs, as the machine of the daemon; ``nodes`` others have some each."""
    from ray.cluster_utils import Cluster

    Path("/tmp/ray").mkdir(exist_ok=True)  # Cluster writes an address there
    made = Cluster()
    try:
        made.add_node(num_cpus=0, object_store_memory=STORE, include_dashboard=False, **head)
        for _ in range(nodes):
            add(made, cpus)
        yield made
    finally:
        import ray

        ray.shutdown()
        made.shutdown()


def add(made: Any, cpus: int = 2, **more: Any) -> Any:
    return made.add_node(num_cpus=cpus, object_store_memory=STORE, **more)
