"""Plugins of other people: installed as a package of their own, found by their entry points."""

from pathlib import Path


def installed(folder: Path, group: str, kind: str, module: str, source: str) -> str:
    """A folder for the module path, in which ``module`` holds this source and a ``PLUGIN``."""
    information = folder / f"{module}-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (information / "entry_points.txt").write_text(f"[ingestor.{group}]\n{kind} = {module}:PLUGIN\n")
    (folder / f"{module}.py").write_text(source)
    return str(folder)
