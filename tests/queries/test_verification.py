"""Repairs go on while the last one put other records out of reach."""

from pathlib import Path
from unittest.mock import patch

import pytest

from ingestor.config.models import Config
from ingestor.queries import verification
from ingestor.queries.verification import Verification, verify
from tests.config.written import load_text, source


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load_text(f"state: {tmp_path}\n" + source(), {})


@pytest.mark.parametrize(
    ("unreachable", "repairs", "left"), [([0], 1, 0), ([1, 0], 2, 0), ([3, 1, 0], 3, 0), ([2, 2, 2], 3, 2)]
)
def test_verify_with_repair_repeats_until_search_reaches_all(
    config: Config, unreachable: list[int], repairs: int, left: int
) -> None:
    seen = iter([Verification(unreachable=number) for number in unreachable])
    with (
        patch.object(verification, "_mend", return_value=Verification(missing=1)) as mended,
        patch.object(verification, "_verify", lambda config: next(seen)),
    ):
        report = verify(config, repair=True)
    assert mended.call_count == repairs
    assert (report.unreachable, report.repaired) == (left, True)


def test_repair_without_effect_is_not_repeated(config: Config) -> None:
    with (
        patch.object(verification, "_mend", return_value=Verification()) as mended,
        patch.object(verification, "_verify", return_value=Verification(unsettled=1)),
    ):
        assert not verify(config, repair=True).repaired
    assert mended.call_count == 1
