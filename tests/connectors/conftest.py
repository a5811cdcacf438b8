import pytest

from connectors import _watching


@pytest.fixture(autouse=True)
def _quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_watching, "TICK", 0.05)
    monkeypatch.setattr(_watching, "RESTART", 0.05)
