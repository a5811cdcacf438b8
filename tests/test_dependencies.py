"""What ``pip install ingestor`` brings: no torch, and so no CUDA builds."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
HEAVY = re.compile(r"torch|transformers|sentence-transformers|triton|nvidia-.*|cuda-.*|scipy|scikit-learn")


def closure(package: str, extras: tuple[str, ...] = ()) -> set[str]:
    """Every package that the installed ones ask for, as their own metadata says."""
    found, open_ = set[tuple[str, tuple[str, ...]]](), [(package, extras)]
    while open_:
        each = open_.pop()
        if each in found:
            continue
        found.add(each)
        name, wanted = each
        for line in _requires(name):
            one = Requirement(line)
            if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in wanted or ("",)):
                open_.append((canonicalize_name(one.name), tuple(sorted(one.extras))))
    return {name for name, _ in found}


def _requires(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def heavy(names: set[str]) -> set[str]:
    return {name for name in names if HEAVY.fullmatch(name)}


def test_the_core_asks_for_no_torch() -> None:
    assert heavy(closure("ingestor")) == set()
    assert "openvino" in closure("ingestor")


def test_the_extra_asks_for_torch() -> None:
    """So that the test above is known to be able to fail."""
    assert {"torch", "sentence-transformers"} <= closure("ingestor", ("torch",))


@pytest.mark.parametrize(("file", "has"), [("requirements", False), ("requirements-torch", True)])
def test_the_lock_files_keep_them_apart(file: str, has: bool) -> None:
    names = set(re.findall(r"^([a-z0-9.-]+)==", (ROOT / f"{file}.lock").read_text(), re.MULTILINE))
    assert bool(heavy(names)) is has


@pytest.mark.slow
def test_the_resolver_fetches_no_cuda_builds(tmp_path: Path) -> None:
    """From the public index alone, without the wheels and settings of this machine."""
    report = tmp_path / "report.json"
    options = ("--dry-run", "--ignore-installed", "--no-build-isolation", "--quiet", "--report", str(report))
    plain = {
        key: value for key, value in os.environ.items() if not key.startswith("PIP_") or key == "PIP_CERT"
    }
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(ROOT)],
        env=plain | {"PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
    )
    if "No matching distribution" in done.stderr and "setuptools" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    found = {canonicalize_name(one["metadata"]["name"]) for one in json.loads(report.read_text())["install"]}
    assert "openvino" in found and heavy(found) == set()
