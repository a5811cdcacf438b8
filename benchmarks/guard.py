"""What the guard before Chroma costs: requests to a Chroma directly, and to one behind the guard.

``python -m benchmarks guard [ROUNDS]``: two servers with the same 3,000 records of 384 dimensions, one
started by ``chroma run``, one as the daemon starts it. Each round asks both the same, in turns that begin
with the other one. Times are those of chromadb's client, one request after the other over one connection; the
last line has two clients at once.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings

from ingestor.chroma_server import ChromaServer, free_port

LOCAL, RECORDS, DIMENSIONS, BATCH = "127.0.0.1", 3000, 384, 500
TOKEN = "a-token-of-the-benchmark"
DIRECTLY = "import sys, chromadb_rust_bindings as chroma; chroma.cli(['chroma', 'run', *sys.argv[1:]])"


@dataclass(frozen=True)
class Request:
    """``times``: how often it is made in a round."""

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
        Request(f"upsert of {BATCH} records", 6, write),
        Request("get of one record", 200, lambda docs, n: docs.get(ids[n])),
        Request("query, 10 of 3,000", 100, lambda docs, n: docs.query(vectors[n], n_results=10)),
        Request("get of 3,000 with vectors", 3, lambda docs, _: docs.get(include=everything)),
        Request("get of one, two clients", 200, lambda docs, n: docs.get(ids[n])),
    ]


@contextmanager
def directly(folder: Path) -> Iterator[int]:
    port = free_port(LOCAL)
    words = ["--path", str(folder / "direct"), "--host", LOCAL, "--port", str(port)]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([sys.executable, "-c", DIRECTLY, *words], stdout=log, stderr=log) as process,
    ):
        try:
            time.sleep(3)
            yield port
        finally:
            process.terminate()


def connected(port: int) -> Any:
    settings = Settings(
        chroma_client_auth_provider="chromadb.auth.token_authn.TokenAuthClientProvider",
        chroma_client_auth_credentials=TOKEN,
    )
    return chromadb.HttpClient(LOCAL, port, settings=settings).get_or_create_collection("docs")


def timed(request: Request, clients: list[Any], first: int) -> list[float]:
    """Seconds a request."""

    def one(docs: Any) -> list[float]:
        found = []
        for n in range(first, first + request.times):
            begun = time.perf_counter()
            request.make(docs, n % RECORDS)
            found.append(time.perf_counter() - begun)
        return found

    with ThreadPoolExecutor(len(clients)) as pool:
        return [seconds for found in pool.map(one, clients) for seconds in found]


def main(rounds: int = 6) -> None:
    with tempfile.TemporaryDirectory() as name, directly(Path(name)) as port:
        folder = Path(name)
        server = ChromaServer(folder / "db", LOCAL, free_port(LOCAL), folder / "guarded", token=TOKEN)
        with server:
            print(f"guard: {server.level}")
            compared(rounds, port, server.port)


def compared(rounds: int, *ports: int) -> None:
    """Beside the median, the quickest tenth: on a busy machine it tells more."""
    print(f"{'milliseconds':28}{'median':>10}{'guarded':>10}{'':>8}{'tenth':>10}{'guarded':>10}")
    for request in requests():
        clients = 2 if "two" in request.name else 1
        sides = [[connected(port) for _ in range(clients)] for port in ports]
        times: list[list[float]] = [[], []]
        for n in range(rounds):
            for side in (0, 1) if n % 2 else (1, 0):
                times[side] += timed(request, sides[side], n * request.times)
        cells = []
        for share in (0.5, 0.1):
            direct, guarded = (1000 * float(np.quantile(each, share)) for each in times)
            cells.append(f"{direct:10.2f}{guarded:10.2f}{guarded / direct - 1:+8.1%}")
        print(f"{request.name:28}{''.join(cells)}", flush=True)
