"""The examples of docs/reading.md, as they stand there, in environments without ingestor or a model."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.e2e.test_service import figure, project, running
from tests.environments import readers
from tests.waiting import wait

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/reading.md").read_text()
PACKAGES = (
    "chromadb==1.5.9",
    "langchain-chroma==1.1.0",
    "llama-index-vector-stores-chroma==0.6.0",
    "llama-index-embeddings-text-embeddings-inference",
)
MODULES = ("chromadb@3.5.0", "@chroma-core/huggingface-server@0.1.8")
QUESTION = "All that is known about the bridge."
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    here = project(tmp_path_factory.mktemp("reading"))
    with running(here):
        settled = 'ingestor_documents{collection="docs",source="docs",state="settled"}'
        wait(lambda: figure(here, settled) == 3)
        yield here


def example(heading: str, language: str, of: Project) -> str:
    """The first block of code below a heading, with the ports and a question of the daemon here."""
    found = re.search(rf"^#+ {heading}\n.*?^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    assert found[1].count("What does an interlibrary loan cost?") == 1
    port = str(of.settings["http"]["port"])
    return (
        found[1]
        .replace("What does an interlibrary loan cost?", QUESTION)
        .replace("8000", str(of.port))
        .replace("8001", port)
    )


def run(command: list[str | Path], folder: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("heading", ["LangChain", "LlamaIndex"])
def test_stores_ask_in_words_without_a_model(heading: str, daemon: Project, tmp_path: Path) -> None:
    script = example("Plain Chroma", "python", daemon) + example(heading, "python", daemon)
    said = run([readers(*PACKAGES), "-W", "ignore", "-c", script], tmp_path)
    assert said.splitlines()[0].split()[0].endswith("bridge.txt")


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm here")
def test_javascript_asks_in_words_without_a_model(daemon: Project, tmp_path: Path) -> None:
    run(["npm", "install", "--silent", *MODULES], tmp_path)
    script = example("JavaScript", "js", daemon) + "console.log(found.documents[0][0]);\n"
    (tmp_path / "ask.mjs").write_text(script)
    assert run(["node", "ask.mjs"], tmp_path).strip() == QUESTION
