from collections.abc import Iterator
from pathlib import Path

import pytest

from ingestor.connectors.push import connector as push_connector
from ingestor.http_server.requests import ServerLimits
from tests.connectors.pushing import Watch, answering


@pytest.fixture(autouse=True)
def _quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_connector, "TICK", 0.02)
    monkeypatch.setattr(push_connector, "LIMITS", ServerLimits(penalty=0.0))


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Watch]:
    """An endpoint in this process, for documents of at most 1 MB."""
    with answering(tmp_path / "pushed", max_size=10**6) as watch:
        yield watch
