"""Every example runs against a daemon, in the environment that its docstring names."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ingestor
from tests.e2e.project import Daemon, Project
from tests.environments import CACHE, environment, readers
from tests.serving import free_port
from tests.waiting import wait

EXAMPLES = Path(__file__).parents[1] / "examples"
QUESTION = "How long may I keep a book?"
ANSWER = "Four weeks, and twice longer on request."


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    project = Project(tmp_path_factory.mktemp("examples"), {"http": {"port": free_port()}})
    (project.docs / "handbook.md").write_text(f"# How long may I keep a book?\n\n{ANSWER}\n")
    daemon: Daemon = project.start()
    try:
        wait(lambda: "In step" in daemon.said() and project.settled(1))
        yield project
    finally:
        daemon.kill()


def ran(python: str | Path, project: Project, example: str, *words: str) -> str:
    done = subprocess.run(
        [python, EXAMPLES / example, *words], cwd=project.folder, capture_output=True, text=True, timeout=3000
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_assistant_lists_tools_and_finds_the_passage(project: Project) -> None:
    said = ran(sys.executable, project, "assistant_mcp.py", str(project.config), QUESTION)
    assert said.splitlines()[0] == "tools: search, read, list_documents, status"
    assert ANSWER in said


def test_query_from_outside_finds_the_passage(project: Project) -> None:
    said = ran(
        sys.executable, project, "query_from_outside.py", "docs", QUESTION, "--port", str(project.port)
    )
    assert ANSWER in said


READERS = {
    "langchain_agent.py": ("chromadb==1.5.9", "langchain-chroma==1.1.0"),
    "llamaindex_query_engine.py": (
        "chromadb==1.5.9", "llama-index-core==0.14.25", "llama-index-vector-stores-chroma==0.6.0",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("example", READERS)
def test_example_in_an_environment_of_its_own_finds_the_passage(project: Project, example: str) -> None:
    ports = ["--port", str(project.port)]
    if example.startswith("llama"):
        ports += ["--service-port", str(project.settings["http"]["port"])]
    printed = ran(readers(*READERS[example]), project, example, QUESTION, *ports)
    assert ANSWER in printed
    cited = ("[1] ", "handbook.md:1 How long may I keep a book?")
    assert example.startswith("llama") or all(words in printed for words in cited)


AGENT = """
import sys
from typing import Any

from langchain.agents import create_agent
from langchain_agent import search_tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Scripted(BaseChatModel):
    _llm_type = "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> "Scripted":
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        last = messages[-1]
        call = {"name": "search", "args": {"question": last.content}, "id": "1"}
        reply = AIMessage("", tool_calls=[call])
        if isinstance(last, ToolMessage):
            reply = AIMessage(f"The documents say: {last.content}")
        return ChatResult(generations=[ChatGeneration(message=reply)])


agent = create_agent(Scripted(), [search_tool(int(sys.argv[2]))])
print(agent.invoke({"messages": [{"role": "user", "content": sys.argv[1]}]})["messages"][-1].content)
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_langchain_agent_calls_the_tool_and_answers_from_the_passage(
    project: Project, tmp_path: Path
) -> None:
    """A script stands for the language model: it asks the tool, then repeats what the tool returned."""
    python = readers("chromadb==1.5.9", "langchain-chroma==1.1.0", "langchain==1.5.2")
    shutil.copy(EXAMPLES / "langchain_agent.py", tmp_path)
    (tmp_path / "agent.py").write_text(AGENT)
    said = ran(python, project, str(tmp_path / "agent.py"), QUESTION, str(project.port))
    assert said.startswith("The documents say: [1] ")
    assert ANSWER in said


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_typescript_reader_is_typed_and_cites_the_passage(project: Project) -> None:
    packages = ["chromadb@3.5.0", "@chroma-core/huggingface-server@0.1.8"]
    packages += ["tsx@4", "typescript@5", "@types/node@20"]
    home = CACHE / "npm"
    ready = home / "made-for"
    if not ready.exists() or ready.read_text() != repr(packages):
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_text('{"type": "module"}')
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", *packages]
        subprocess.run(install, cwd=home, check=True)
        ready.write_text(repr(packages))
    shutil.copy(EXAMPLES / "query.ts", home)
    strict = [
        "--noEmit",
        "--strict",
        "--types",
        "node",
        "--module",
        "nodenext",
        "--target",
        "es2022",
        "--skipLibCheck",
        "query.ts",
    ]
    typed = subprocess.run(["npx", "tsc", *strict], cwd=home, capture_output=True, text=True, check=False)
    assert typed.returncode == 0, typed.stdout
    said = subprocess.run(
        ["npx", "tsx", "query.ts", QUESTION, str(project.port)],
        cwd=home, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert ANSWER in said.stdout
    assert "handbook.md:1 How long may I keep a book?" in said.stdout


def printed_beside_examples(folder: Path, python: Path, program: str, **environment: str) -> str:
    """Run a program in the folder of the examples, with a project of its own and no daemon."""
    own = Project(folder, {"chroma": {"path": "./chroma", "embedded": True}})
    (own.docs / "handbook.md").write_text(f"# How long may I keep a book?\n\n{ANSWER}\n")
    given = {**os.environ, "INGESTOR_CONFIG": str(own.config), **environment}
    done = subprocess.run(
        [python, "-c", program], cwd=EXAMPLES, env=given, capture_output=True, text=True, timeout=3000
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_dagster_sync_materializes_the_collection_and_checks_it(tmp_path: Path) -> None:
    program = """
import dagster as dg
from dagster_sync import collection, equals_its_sources

done = dg.materialize([collection, equals_its_sources], instance=dg.DagsterInstance.ephemeral())
print(done.success, done.get_asset_check_evaluations()[0].passed)
print(done.asset_materializations_for_node("collection")[0].metadata["added"].value)
"""
    ours = str(Path(sys.executable).with_name("ingestor"))
    python = readers("dagster==1.13.29")
    printed = printed_beside_examples(
        tmp_path, python, program, INGESTOR=ours, DAGSTER_DISABLE_TELEMETRY="yes"
    )
    assert printed.split() == ["True", "True", "1"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fastapi_service_indexes_and_answers_with_citations(tmp_path: Path) -> None:
    program = f"""
from fastapi.testclient import TestClient
from fastapi_citations import app

with TestClient(app) as client:
    print(client.get("/ask", params={{"question": {QUESTION!r}}}).text)
    print(client.get("/ask", params={{"question": " "}}).status_code)
"""
    python = environment("fastapi-venv", ["fastapi==0.124.0", "httpx"])
    ours = {"PYTHONPATH": str(EXAMPLES.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    cited, refused = printed_beside_examples(tmp_path, python, program, **ours).splitlines()
    (citation,) = json.loads(cited)
    assert (citation["number"], citation["lines"]) == (1, [1, 3])
    assert ANSWER in citation["text"]
    assert citation["source"].endswith("handbook.md")
    assert refused == "422"


def test_entry_for_registries_names_the_distribution_and_its_version() -> None:
    entry = json.loads((EXAMPLES / "server.json").read_text("utf-8"))
    (package,) = entry["packages"]
    assert (entry["version"], package["version"]) == (ingestor.__version__, ingestor.__version__)
    assert package["identifier"] == "chroma-ingestor"
    assert len(entry["description"]) <= 100, "the limit of the registry"
    readme = (EXAMPLES.parent / "README.md").read_text("utf-8")
    assert f"mcp-name: {entry['name']} " in readme, "PyPI's page is how the registry knows the owner"


def test_every_example_is_listed_and_run() -> None:
    listed, tests = (EXAMPLES / "README.md").read_text("utf-8"), Path(__file__).read_text("utf-8")
    names = [path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".json", ".ts")]
    assert len(names) >= 8
    assert [name for name in names if name not in listed or name.removesuffix(".py") not in tests] == []
