"""What the engine says; what it does is held by tests/simulation."""

import logging
from pathlib import Path

import pytest

from tests.simulation.world import World


def test_a_folder_of_pictures_is_told_in_one_line_for_each_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, seed=1)
    for number in range(8):
        world.files.write(f"{number}.gif", "GIF89a\x01\x00\x01\x00")
    world.files.write("other.bin", "\x00\x01\x02")
    with caplog.at_level(logging.INFO):
        world.settle()
    world.journal.close()
    assert "quarantined" not in caplog.text
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("skipped")]
    assert len(told) == 2, told
    for name in (".gif", "other.bin"):
        [line] = [line for line in told if name in line]
        assert "others like it are only listed, by `ingestor status`" in line
