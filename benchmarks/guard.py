"""Cost of the guard in front of Chroma: compares requests to Chroma directly and behind the guard.

``python -m benchmarks guard [ROUNDS]``: two servers with the same 3,000 records of 384 dimensions, one
started by ``chroma run``, one as the daemon starts it. Each round sends both the same requests, in
alternating order. Times are those of chromadb's client over one connection. CPU time is that of the server's
process, with the guard.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings

from ingestor.chroma.processes import free_port
from ingestor.chroma.server import ChromaServer

LOCAL, RECORDS, DIMENSIONS, BATCH = "127.0.0.1", 3000, 384, 500
TOKEN = "a-token-of-the-benchmark"
DIRECTLY = "import sys, chromadb_rust_bindings as chroma; chroma.cli(['chroma', 'run', *sys.argv[1:]])"


@dataclass(frozen=True)
class Request:
    """A kind of request. ``times``: number of requests in a round."""

    name: str
    times: int
    make: Callable[[Any, int], object]


def requests() -> list[Request]:
    chance = np.random.default_rng(1)
    vectors = chance.normal(size=(RECORDS, DIMENSIONS)).astype(np.float32)
    ids = [f"record {n}" for n in range(RECORDS)]
    texts = [f"{'text ' * 100}{n}" for n in range(RECORDS)]

    def write(docs: Any, n: int) -> None:
        part = slice(n * BATCH % RECORDS, n * BATCH % RECORDS + BATCH)
        docs.upsert(ids[part], embeddings=vectors[part], documents=texts[part])

    everything = ["documents", "embeddings"]
    return [
        Request(f"upsert of {BATCH} records", 1, write),
        Request("get of one record", 75, lambda docs, n: docs.get(ids[n])),
        Request("query, 10 of 3,000", 75, lambda docs, n: docs.query(vectors[n], n_results=10)),
        Request("get of 3,000 with vectors", 2, lambda docs, _: docs.get(include=everything)),
    ]


@contextmanager
def directly(folder: Path) -> Iterator[tuple[int, int]]:
    """Start Chroma directly; yield port and process id."""
    port = free_port(LOCAL)
    words = ["--path", str(folder / "direct"), "--host", LOCAL, "--port", str(port)]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([sys.executable, "-c", DIRECTLY, *words], stdout=log, stderr=log) as process,
    ):
        try:
            time.sleep(3)
            yield port, process.pid
        finally:
            process.terminate()


def connected(port: int) -> Any:
    settings = Settings(
        chroma_client_auth_provider="chromadb.auth.token_authn.TokenAuthClientProvider",
        chroma_client_auth_credentials=TOKEN,
    )
    return chromadb.HttpClient(LOCAL, port, settings=settings).get_or_create_collection("docs")


def timed(request: Request, docs: Any, n: int) -> float:
    """Seconds."""
    begun = time.perf_counter()
    request.make(docs, n % RECORDS)
    return time.perf_counter() - begun


def main(rounds: int = 10) -> None:
    with tempfile.TemporaryDirectory() as name, directly(Path(name)) as direct:
        folder = Path(name)
        server = ChromaServer(
            folder / "db", LOCAL, free_port(LOCAL), folder / "guarded", tokens=[(TOKEN, "write")]
        )
        with server:
            assert server.pid
            print(f"guard: {server.level}")
            compared(rounds, direct, (server.port, server.pid))


def compared(rounds: int, *servers: tuple[int, int]) -> None:
    first, *others = requests()
    for port, _ in servers:
        for n in range(RECORDS // BATCH):
            first.make(connected(port), n)
    print(f"{'milliseconds':28}{'median':>10}{'guarded':>10}{'':>8}{'CPU':>10}{'guarded':>10}")
    for request in [*others, first]:
        sides = [connected(port) for port, _ in servers]
        times: list[list[float]] = [[], []]
        spent = [0.0, 0.0]
        for number in range(rounds):
            for side in (0, 1) if number % 2 else (1, 0):
                before = cpu(servers[side][1])
                first_one = number * request.times
                numbers = range(first_one, first_one + request.times)
                times[side] += [timed(request, sides[side], n) for n in numbers]
                spent[side] += cpu(servers[side][1]) - before
        medians = [1000 * median(each) for each in times]
        means = [1000 * seconds / len(times[0]) for seconds in spent]
        print(f"{request.name:28}{versus(*medians)}{versus(*means)}", flush=True)


def versus(direct: float, guarded: float) -> str:
    return f"{direct:10.2f}{guarded:10.2f}{guarded / direct - 1:+8.1%}"


def cpu(pid: int) -> float:
    """Return the CPU seconds of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
