"""Time for which a collection's name is missing during a swap, as a reader sees it.

``python -m benchmarks gap [SWAPS]``: a daemon with the sample documents and the hashing embedder swaps its
collection SWAPS times, while one reader requests the collection by name without pause. A gap lasts from the
last answer before a refusal to the first answer after it, so it is never underestimated.
"""

import http.client
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Any

import yaml

INGESTOR = Path(sys.executable).with_name("ingestor")
DOCUMENTS = Path(__file__).parents[1] / "documents"
NAMED = "/api/v2/tenants/default_tenant/databases/default_database/collections/docs"


@dataclass
class Reader:
    """A reader's gaps in milliseconds, and its number of answers."""

    port: int
    answers: int = 0
    gaps: list[float] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        last, gone = time.perf_counter(), False
        while not self.stop.is_set():
            connection.request("GET", NAMED)
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.client.OK:
                gone = True
                continue
            now = time.perf_counter()
            if gone:
                self.gaps.append(1000 * (now - last))
            last, gone = now, False
            self.answers += 1


def configure(folder: Path, port: int, size: int) -> None:
    settings: dict[str, Any] = {
        "chroma": {"path": "./chroma", "port": port},
        "embedding": {"kind": "hashing"},
        "chunking": {"strategy": "recursive", "size": size},
        "rechunk": {"mode": "swap", "grace": "1s"},
        "sources": [{"name": "docs", "kind": "folder", "path": str(DOCUMENTS), "collection": "docs"}],
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))


def status(folder: Path) -> Any:
    done = subprocess.run(
        [INGESTOR, "status", "--json"], cwd=folder, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def swapped(folder: Path, records: int) -> int:
    """Wait until the new collection is complete; return its number of records."""
    while True:
        docs = status(folder)["collections"]["docs"]
        if docs["healthy"] and not docs["built"] and docs["records"] not in (0, records):
            return int(docs["records"])
        time.sleep(0.2)


def free_port() -> int:
    with socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def main(swaps: int = 10) -> None:
    folder, port = Path(tempfile.mkdtemp()), free_port()
    configure(folder, port, 200)
    daemon = subprocess.Popen(
        [INGESTOR, "run"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        records = swapped(folder, 0)
        reader = Reader(port)
        thread = threading.Thread(target=reader.read)
        thread.start()
        for number in range(swaps):
            configure(folder, port, 150 if number % 2 == 0 else 200)
            records = swapped(folder, records)
        time.sleep(2)
        reader.stop.set()
        thread.join()
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(60)
        shutil.rmtree(folder)
    met = ", ".join(f"{gap:.1f}" for gap in sorted(reader.gaps)) or "none"
    print(f"{swaps} swaps, {reader.answers:,} answers, {len(reader.gaps)} gaps met; in ms: {met}")
