"""What commands do before they read the config."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.config.written import SOURCE

SHOWS = """
import ctypes, sys
from pathlib import Path
from ingestor.cli.usage import read_config
read_config(Path(sys.argv[1]))
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_environment_of_commands_that_write_is_hidden_from_other_processes(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"state: {tmp_path}/state\n{SOURCE}")
    done = subprocess.run([sys.executable, "-c", SHOWS, config], capture_output=True, text=True, check=False)
    assert done.stdout == "0\n", done.stderr
