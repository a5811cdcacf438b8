"""Connectors against servers whose packages are no dependencies, in an environment made for that."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.environments import environment

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "s3fs==2026.9.0", "sqlalchemy==2.1.9", "langchain-community==0.4.2", "llama-index-core==0.14.25",
    "llama-index-readers-obsidian==0.8.0", "moto[server]==5.2.5", "webdav4[fsspec]==0.11.0",
    "wsgidav==4.4.0", "cheroot==11.1.2", "pyftpdlib==2.2.0", "aiohttp==3.14.5", "paramiko==5.1.0",
    "smbprotocol==1.17.0", "psycopg[binary]==3.3.9", "adlfs==2026.8.0", "gcsfs==2026.10.1",
    "gcp-storage-emulator==2026.7.19",
)  # fmt: skip
TESTS = (
    "tests/connectors/remote/test_files_servers.py", "tests/connectors/sql/test_sql.py",
    "tests/connectors/sql/test_sql_postgres.py", "tests/connectors/programs/test_python_bridges.py",
    "tests/e2e/test_connectors.py",
)  # fmt: skip


@pytest.fixture(scope="module")
def python() -> Path:
    _azurite(ROOT / ".cache" / "azurite")
    return environment("servers-venv", PACKAGES)


def _azurite(folder: Path) -> None:
    """The server that Azure's own developers test with; without npm its tests are skipped."""
    npm = shutil.which("npm")
    if npm is not None and not folder.exists():
        folder.mkdir(parents=True)
        quiet = ["--silent", "--no-audit", "--no-fund"]
        subprocess.run([npm, "install", *quiet, "azurite@3.35.0"], cwd=folder, check=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("test", TESTS)
def test_connectors_pass_against_real_servers(python: Path, test: str) -> None:
    command = [python, "-m", "pytest", "-v", "-m", "slow", "-p", "no:cacheprovider", "-W", "default", test]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout, "all were skipped"
