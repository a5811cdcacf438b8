"""Tokens that each kind of config change embeds, compared with a fresh start.

``python -m benchmarks rechunk [CHANGES]``: the sample documents, all-MiniLM-L6-v2, one ``ingestor sync`` for
each row over one state. The last column has the tokens that the same config embeds with an empty cache.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

INGESTOR = Path(sys.executable).with_name("ingestor")
DOCUMENTS = Path(__file__).parents[1] / "documents"

RECURSIVE = {"strategy": "recursive", "size": 200}
CLUSTER = {"strategy": "cluster", "max_tokens": 400}
CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("first run: recursive, size 200", {"chunking": RECURSIVE}),
    ("workers, scan_every, cache size", {"chunking": RECURSIVE, "workers": 4, "scan_every": "1h"}),
    ("size 200 -> 150", {"chunking": {**RECURSIVE, "size": 150}}),
    ("back to 200", {"chunking": RECURSIVE}),
    ("neighbours 0 -> 0.3", {"chunking": {**RECURSIVE, "neighbours": 0.3}}),
    ("context: none -> headings", {"chunking": {**RECURSIVE, "context": "headings"}}),
    ("strategy: recursive -> cluster", {"chunking": CLUSTER}),
    ("max_tokens 400 -> 300", {"chunking": {**CLUSTER, "max_tokens": 300}}),
    ("vectors: encoded -> pooled", {"chunking": {**CLUSTER, "max_tokens": 300, "vectors": "pooled"}}),
    ("strategy: cluster -> changepoint", {"chunking": {"strategy": "changepoint"}}),
    ("target 125 -> 150", {"chunking": {"strategy": "changepoint", "target": 150}}),
    ("back to recursive, by swap", {"chunking": RECURSIVE, "rechunk": "swap"}),
]


def synced(folder: Path, settings: dict[str, Any]) -> tuple[int, int, int]:
    """Sync; return the records in the collection, and the texts and tokens embedded."""
    source = {"name": "docs", "kind": "folder", "path": str(DOCUMENTS), "collection": "docs"}
    base = {"chroma": {"path": "./chroma", "embedded": True}, "sources": [source]}
    (folder / "config.yaml").write_text(yaml.safe_dump(base | settings))
    done = subprocess.run(
        [INGESTOR, "sync", "--json"], cwd=folder, capture_output=True, text=True, check=True
    )
    status = subprocess.run(
        [INGESTOR, "status", "--json"], cwd=folder, capture_output=True, text=True, check=True
    )
    embedded = json.loads(done.stdout)["embedded"]
    records = json.loads(status.stdout)["collections"]["docs"]["records"]
    return records, embedded["texts"], embedded["tokens"]


def anew(settings: dict[str, Any]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return synced(Path(folder), settings)[2]


def main(changes: int = 0) -> None:
    """Print a table. ``changes``: number of config changes, from the first one on; 0 for all."""
    whole: dict[str, int] = {}
    print(f"{'config change':34} {'chunks':>7} {'texts':>7} {'tokens':>8} {'anew':>8} {'share':>6}")
    folder = Path(tempfile.mkdtemp())
    try:
        for name, settings in CHANGES[: changes or None]:
            records, texts, tokens = synced(folder, settings)
            key = json.dumps(settings["chunking"])
            whole.setdefault(key, anew(settings))
            share = tokens / whole[key]
            print(f"{name:34} {records:7,} {texts:7,} {tokens:8,} {whole[key]:8,} {share:6.0%}", flush=True)
    finally:
        shutil.rmtree(folder)
