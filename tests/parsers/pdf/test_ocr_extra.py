"""OCR with its package, which is no dependency, in an environment made for that."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.environments import environment

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ocr_tests_pass_with_rapidocr() -> None:
    python = environment("ocr-venv", ("rapidocr==3.10.0", "onnxruntime==1.31.1"))
    test = "tests/parsers/pdf/test_ocr.py"
    command = [python, "-m", "pytest", "-v", "-m", "slow", "-p", "no:cacheprovider", "-W", "default", test]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout, "all were skipped"
