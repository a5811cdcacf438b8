"""Speed of every strategy, compared with other packages on the same text.

``python -m benchmarks speed [ROUNDS]`` creates an environment with the other packages
(speed-requirements.txt) under .cache at its first run. The splitters take turns, and the best round of each
counts. Seconds are processor time, so ratios are valid on a busy machine, too. All count tokens by
cl100k_base. Vectors are fake, and their time is not counted. Our time includes parsing if the other's does.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np

from benchmarks._needs import Missing, failure
from benchmarks._needs import prose as corpus
from ingestor.model import Blob, Document, Vectors
from ingestor.parsers.shared import detect
from ingestor.ports import Chunker, Parser
from ingestor.registry import find, kinds
from ingestor.text.tokens import Tokens

ROOT = Path(__file__).parents[1]
REQUIREMENTS = Path(__file__).with_name("speed-requirements.txt")
CODE = Path(argparse.__file__)  # a long Python file of every installation
ASK_A_MODEL = {"llm", "proposition"}

# Job -> our strategy and its options, where the others' sizes are taken.
JOBS: dict[str, tuple[str, dict[str, object]]] = {
    "recursive": ("recursive", {"size": 200}),
    "fixed": ("fixed", {"size": 200, "overlap": 50}),
    "sentence": ("sentence", {"max_sentences": 1000, "max_tokens": 250, "overlap": 0}),
    "markdown": ("structure", {"max_tokens": 250}),
    "python": ("structure", {"max_tokens": 250}),
    "semantic": ("breakpoint", {"max_tokens": 400}),
}

Way = Callable[[], float]  # does the job, and returns its processor seconds


class Fake:
    """Embedder with vectors from the texts' checksums; its time is not counted."""

    def __init__(self) -> None:
        self.waited = 0.0

    def embed(self, texts: Sequence[str]) -> Vectors:
        start = time.process_time()
        rows = [np.random.default_rng(crc32(text.encode())).standard_normal(384) for text in texts]
        vectors = np.array(rows, np.float32).reshape(-1, 384)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        self.waited += time.process_time() - start
        return vectors


def main(rounds: int = 3) -> None:
    """Print a table of jobs, and one of all strategies."""
    folder = corpus()
    prose = "\n\n".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.md")))
    code = CODE.read_text("utf-8")
    sizes = (f"{len(text.encode()) / 1e3:,.0f} kB of" for text in (prose, code))
    print(f"{next(sizes)} prose from {folder.name}, {next(sizes)} Python")
    ways = ours(prose, code)
    python = environment()
    turns = [turn(ways, python, prose, code) for _ in range(rounds)]
    best = {name: min(vectors[name] for vectors in turns) for name in turns[0]}
    report(best, len(prose.encode()))


def ours(prose: str, code: str) -> dict[str, Way]:
    texts = {"markdown": (prose, "a.md"), "python": (code, "a.py")}
    ways = {
        f"{job}/ours": way(kind, options, *texts.get(job, (prose, "")))
        for job, (kind, options) in JOBS.items()
    }
    strategies = [kind for kind in kinds("chunkers") if kind not in ASK_A_MODEL]
    return ways | {f"all/{kind}": way(kind, {}, prose, "") for kind in strategies}


def way(kind: str, options: dict[str, object], text: str, name: str) -> Way:
    """Return a run of a strategy. ``name``: of the file to parse; "" for text that needs no parsing."""
    plugin = find("chunkers", kind)

    def do() -> float:
        tokens = Tokens()
        tokens.offsets("loads the encoding")
        chunker: Chunker = plugin.build(plugin.options(**options), tokens)
        fake, start = Fake(), time.process_time()
        document = read(Blob(text.encode(), name)) if name else Document(text)
        chunker.chunk(document, fake.embed, None)
        return time.process_time() - start - fake.waited

    return do


def read(blob: Blob) -> Document:
    plugin = find("parsers", detect.parser_kind(detect.content_type(blob)))
    parser: Parser = plugin.build(plugin.options())
    return parser.parse(blob)


def environment() -> Path:
    """Return the interpreter that has the other packages."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:8]
    home = ROOT / ".cache" / "speed-venv" / key
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        venv.create(home, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS]
        try:
            subprocess.run(install, check=True, capture_output=True)
        except subprocess.CalledProcessError as error:
            raise Missing(f"the packages of {REQUIREMENTS} cannot be installed: {failure(error)}") from error
        ready.touch()
    return python


def turn(ways: dict[str, Way], python: Path, prose: str, code: str) -> dict[str, float]:
    """Run every way twice; the better run counts."""
    vectors = {name: min(do(), do()) for name, do in ways.items()}
    with tempfile.TemporaryDirectory(prefix="ingestor-speed-") as folder:
        files = [Path(folder) / "prose", Path(folder) / "code"]
        for file, text in zip(files, (prose, code), strict=True):
            file.write_text(text, "utf-8")
        peers = Path(__file__).with_name("_peers.py")
        done = subprocess.run([python, peers, *files], check=True, stdout=subprocess.PIPE, text=True)
    return vectors | json.loads(done.stdout)


def report(best: dict[str, float], size: int) -> None:
    """Print both tables. ``size``: bytes of the prose."""
    print("\n| job | our strategy | seconds | how many times as long others take |\n|---|---|---|---|")
    for job, (kind, options) in JOBS.items():
        own = best[f"{job}/ours"]
        others = ", ".join(
            f"{name.partition('/')[2]} {seconds / own:.1f}"
            for name, seconds in best.items()
            if name.startswith(f"{job}/") and not name.endswith("/ours")
        )
        said = " ".join([kind, *(f"{key}={value}" for key, value in options.items())])
        print(f"| {job} | {said} | {own:.3f} | {others} |")
    print(
        "\n| strategy, with its defaults | seconds | MB/s | LangChain's recursive takes |\n|---|---|---|---|"
    )
    for name, seconds in best.items():
        if name.startswith("all/"):
            ratio = best["recursive/langchain"] / seconds
            rate = size / seconds / 1e6
            print(f"| {name.partition('/')[2]} | {seconds:.3f} | {rate:.2f} | {ratio:.1f} times |")
