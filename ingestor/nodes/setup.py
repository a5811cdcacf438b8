"""Setups: descriptions from which a process on a node builds the same tools or model as the daemon.

Versions and fingerprints are compared, because documents prepared by different versions would differ.
"""

import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from ingestor import __version__
from ingestor.model import Fingerprint
from ingestor.pipeline.prepare import Tools
from ingestor.ports import Embedder, NeedsHuman
from ingestor.registry import entries

MODEL = "embedding model"
_MOST = 8  # differences that a message names
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def versions() -> dict[str, str]:
    """Return the versions of this program, of Python and of the required packages, as installed here."""
    known = {"ingestor": __version__, "Python": platform.python_version()}
    own = next(entry.dist for entry in entries("parsers") if entry.module == "ingestor.parsers.text")
    for line in (own.requires if own is not None else None) or ():
        name = _NAME.match(line)
        if name is not None and "extra ==" not in line:
            try:
                known[f"package {name[0]}"] = version(name[0])
            except PackageNotFoundError:
                known[f"package {name[0]}"] = "none"
    return known


@dataclass(frozen=True, slots=True)
class Setup:
    """Description from which a process builds the tools of a source, or a model.

    ``key``: identifies the tools; other tools have another key. ``packed``: config of the source or the
    model. ``recipes``: the daemon's fingerprints of the parts of the tools, by their names. ``versions``:
    versions of the daemon's packages.
    """

    key: str
    packed: bytes
    recipes: Mapping[str, str]
    versions: Mapping[str, str] = field(default_factory=versions)


ToolsOf = Callable[[bytes], Tools]
EmbedderOf = Callable[[bytes], tuple[Embedder, Fingerprint]]  # model and its recipe


def make_tools(tools_of: ToolsOf, setup: Setup) -> Tools:
    """Build the tools of a setup in this process.

    Raises NeedsHuman if these tools differ from the daemon's.
    """
    require_same(setup.versions, versions(), "install the same on every node")
    tools = tools_of(setup.packed)
    require_same(setup.recipes, recipes_of(tools), "the config or a package differs")
    return tools


def make_embedder(embedder_of: EmbedderOf, setup: Setup) -> Embedder:
    """Load the model of a setup in this process. Raises NeedsHuman if the model differs from the daemon's."""
    require_same(setup.versions, versions(), "install the same on every node")
    embedder, recipe = embedder_of(setup.packed)
    require_same(setup.recipes, {MODEL: recipe}, "the model or the processor differs")
    return embedder


def recipes_of(tools: Tools) -> dict[str, str]:
    """Return a fingerprint for each part of the tools on which the records of a source depend, by name."""
    parsers = {f"parser {kind}": str(recipe) for kind, recipe in tools.reader.recipes.items()}
    return {
        **parsers,
        f"strategy {tools.describing.strategy}": tools.chunker_recipe,
        MODEL: tools.embedder_recipe,
        "rules of the program": tools.recipe(""),
    }


def require_same(ours: Mapping[str, str], theirs: Mapping[str, str], hint: str) -> None:
    """Raise NeedsHuman with the differences if this process differs from the daemon.

    ``ours``: versions or fingerprints of the daemon. ``theirs``: versions or fingerprints of this process.
    ``hint``: the remedy.
    """
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if not names:
        return
    differences = [
        f"{name} ({theirs.get(name, 'none')} there, {ours.get(name, 'none')} here)" for name in names
    ]
    more = f", and {len(differences) - _MOST} more" if len(differences) > _MOST else ""
    raise NeedsHuman(f"differs from the daemon: {', '.join(differences[:_MOST])}{more}: {hint}")
