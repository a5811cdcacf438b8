"""What commands do before they read the config."""

import subprocess
import sys
from pathlib import Path

import pytest

from ingestor.cli.usage import log_level
from tests.config.written import SOURCE

SHOWS = """
import ctypes, sys
from pathlib import Path
from ingestor.cli import usage
getattr(usage, sys.argv[2])(Path(sys.argv[1]))
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
@pytest.mark.parametrize("reads", ["open_to_read", "open_to_write"])
def test_environment_of_commands_is_hidden_from_other_processes(tmp_path: Path, reads: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"state: {tmp_path}/state\n{SOURCE}")
    done = subprocess.run(
        [sys.executable, "-c", SHOWS, config, reads], capture_output=True, text=True, check=False
    )
    assert done.stdout == "0\n", done.stderr


@pytest.mark.parametrize(
    ("configured", "verbose", "quiet", "level"),
    [
        ("info", False, False, "info"),
        ("info", True, False, "debug"),
        ("error", True, False, "debug"),
        ("debug", False, True, "warning"),
        ("error", False, True, "error"),
    ],
)
def test_log_level_verbose_and_quiet_change_the_config_both_ways(
    configured: str, verbose: bool, quiet: bool, level: str
) -> None:
    assert log_level(configured, verbose, quiet) == level


def test_log_level_verbose_with_quiet_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        log_level("info", True, True)
    assert "--verbose and --quiet exclude each other" in capsys.readouterr().err
