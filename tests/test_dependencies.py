"""Packages of ``pip install chroma-ingestor`` (no torch) and of ``make setup`` (none with CUDA)."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, entry_points, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OURS = next(
    each.dist.name
    for each in entry_points(group="ingestor.parsers")
    if each.module == "ingestor.parsers.text"
)
HINT = re.compile(r"\b([\w-]*ingestor)\[(\w+)\]")
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


def test_core_does_not_require_torch() -> None:
    assert heavy(closure(OURS)) == set()
    assert "openvino" in closure(OURS)


def test_extra_requires_torch() -> None:
    """So that the test above is known to be able to fail."""
    assert {"torch", "sentence-transformers"} <= closure(OURS, ("torch",))


def locked(file: str) -> dict[str, str]:
    """Versions by package."""
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", (ROOT / f"locks/{file}.lock").read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("file", "has"), [("requirements", False), ("requirements-torch", True), ("requirements-ray", False)]
)
def test_lock_files_keep_clients_apart(file: str, has: bool) -> None:
    assert bool(heavy(set(locked(file)))) is has


def test_ray_and_its_requirements_are_locked_once() -> None:
    """As the extra asks for it; beside the packages that are installed in any case."""
    asked = {
        canonicalize_name(one.name): one.specifier
        for line in requires(OURS) or []
        if (one := Requirement(line)).marker and one.marker.evaluate({"extra": "ray"})
    }
    runtime, ray = locked("requirements"), locked("requirements-ray")
    assert not runtime.keys() & ray.keys()
    assert asked["ray"].contains(ray["ray"])
    for line in _requires("ray"):
        one = Requirement(line)
        if one.marker is None or one.marker.evaluate({"extra": ""}):
            assert one.specifier.contains((runtime | ray)[canonicalize_name(one.name)]), line


def test_cluster_has_the_ray_of_the_image() -> None:
    manifest = (ROOT / "deploy" / "kubernetes-ray.yaml").read_text()
    assert f"rayVersion: {locked('requirements-ray')['ray']}\n" in manifest


@pytest.mark.slow
def test_resolver_fetches_no_cuda_builds(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = resolved("--no-build-isolation", "--report", str(report), str(ROOT))
    if "No matching distribution" in done.stderr and "setuptools" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    found = {canonicalize_name(one["metadata"]["name"]) for one in json.loads(report.read_text())["install"]}
    assert "openvino" in found and heavy(found) == set()


def test_setup_requires_torch_without_cuda_and_nothing_of_nvidia() -> None:
    assert all(each.endswith("+cpu") for each in torch_of_setup()) or sys.platform != "linux"
    locks = "".join(path.read_text() for path in ROOT.glob("locks/*.lock"))
    assert not re.findall(r"^(?:nvidia|cuda|triton)\S*", locks, re.MULTILINE)


def test_setup_installs_by_uv_where_the_machine_has_it(tmp_path: Path) -> None:
    (tmp_path / "uv").write_text("#!/bin/sh\n")
    (tmp_path / "uv").chmod(0o755)
    assert installs("UV=") == [".venv/bin/python -m pip"] * 2
    assert installs(path=f"{tmp_path}:{os.environ['PATH']}") == [f"{tmp_path}/uv pip"] * 2


def test_setup_without_torch_installs_none_and_no_tools_of_developers() -> None:
    assert torch_of_setup()
    commands = setup()
    assert not re.search(r"torch|requirements-dev", commands), commands
    assert "torch==9.9" in setup("TORCH=torch==9.9")


def resolved(*wanted: str) -> subprocess.CompletedProcess[str]:
    """By the public index alone, without the wheels and settings of this machine."""
    plain = {
        key: value for key, value in os.environ.items() if not key.startswith("PIP_") or key == "PIP_CERT"
    }
    options = ("--dry-run", "--ignore-installed", "--quiet")
    return subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, *wanted],
        env=plain | {"PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
    )


def torch_of_setup() -> list[str]:
    return sorted(set(re.findall(r"torch==\S+", setup("TORCH=1"))))


def installs(*variables: str, path: str = os.environ["PATH"]) -> list[str]:
    """The program of each installation."""
    return re.findall(r"(\S+(?: -m)? pip)(?: --\S+)* install", setup(*variables, path=path))


def setup(*variables: str, path: str = os.environ["PATH"]) -> str:
    """The commands of ``make setup`` on a machine that has nothing yet."""
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", "setup", *variables]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": path}, capture_output=True, text=True, check=True)
    return done.stdout


def test_hints_name_this_distribution_and_its_extras() -> None:
    """Another project has the name of the command: a hint with that name would install its package."""
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *(ROOT / "ingestor").rglob("*.py")]
    named = {hint for file in files for hint in HINT.findall(file.read_text("utf-8"))}
    extras = PROJECT["optional-dependencies"]
    assert len(named) >= 4
    assert {hint for hint in named if hint[0] != PROJECT["name"] or hint[1] not in extras} == set()
