"""Environments with packages that are no dependencies, made once and kept in .cache."""

import hashlib
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from pathlib import Path

CACHE = Path(__file__).parent.parent / ".cache"
SCRIPT = "#!{}\nfrom ingestor.cli.main import main\nmain()\n"


def environment(name: str, packages: Iterable[str]) -> Path:
    """Its interpreter. What it lacks comes from our own environment. Made once for a list of packages."""
    folder = CACHE / name
    interpreter, made_for = folder / "bin/python", folder / "made-for"
    wanted = "\n".join((*packages, sys.prefix))
    if not made_for.exists() or made_for.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", *packages], check=True)
        own = folder / f"lib/python{sysconfig.get_python_version()}/site-packages"
        (own / "ours.pth").write_text(sysconfig.get_path("purelib"))
        script = folder / "bin/ingestor"
        script.write_text(SCRIPT.format(interpreter))
        script.chmod(0o755)
        made_for.write_text(wanted)
    return interpreter


def readers(*packages: str) -> Path:
    """The interpreter of an environment with these packages alone, and nothing of ours. Made once."""
    key = hashlib.sha256(repr((packages, sys.version_info[:2])).encode()).hexdigest()[:8]
    home = CACHE / "readers-venv" / key
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        ready.touch()
    return python
