import pytest

from ingestor.connectors.folder import watching


@pytest.fixture(autouse=True)
def _quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "TICK", 0.05)
    monkeypatch.setattr(watching, "RESTART", 0.05)
