"""Keep Chroma collections exactly in step with the documents people have.

``from ingestor import Project`` gives the library: see docs/library.md. Names are imported at their first
use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ingestor.config.models import ConfigError as ConfigError
    from ingestor.ports import BadDocument as BadDocument
    from ingestor.ports import Gone as Gone
    from ingestor.ports import IngestorError as IngestorError
    from ingestor.ports import NeedsHuman as NeedsHuman
    from ingestor.ports import Torn as Torn
    from ingestor.ports import Transient as Transient
    from ingestor.project import Project as Project
    from ingestor.queries.access import BadRequest as BadRequest
    from ingestor.queries.plan import SyncPlan as SyncPlan
    from ingestor.queries.status import Status as Status
    from ingestor.queries.status import SyncReport as SyncReport
    from ingestor.queries.verification import Verification as Verification
    from ingestor.search.values import Answer as Answer
    from ingestor.state.files import Locked as Locked
    from ingestor.state.run_status import SyncProgress as SyncProgress

__version__ = "0.2.0"

_HOMES = {
    "ingestor.queries.plan": ("SyncPlan",),
    "ingestor.queries.access": ("BadRequest",),
    "ingestor.queries.status": ("Status", "SyncReport"),
    "ingestor.queries.verification": ("Verification",),
    "ingestor.config.models": ("ConfigError",),
    "ingestor.ports": ("BadDocument", "Gone", "IngestorError", "NeedsHuman", "Torn", "Transient"),
    "ingestor.project": ("Project",),
    "ingestor.search.values": ("Answer",),
    "ingestor.state.files": ("Locked",),
    "ingestor.state.run_status": ("SyncProgress",),
}


if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> Any:
        home = next((module for module, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module 'ingestor' has no attribute {name!r}")
        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *(name for names in _HOMES.values() for name in names)})
