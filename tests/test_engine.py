"""What the engine says; what it does is held by tests/simulation."""

import logging
from pathlib import Path

import pytest

from tests.simulation.world import World


def test_a_folder_of_pictures_is_told_in_a_few_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, seed=1)
    for number in range(8):
        world.files.write(f"{number}.gif", "GIF89a\x01\x00\x01\x00")
    world.files.write("other.bin", "\x00\x01\x02")
    with caplog.at_level(logging.WARNING):
        world.settle()
    world.journal.close()
    told = [record.getMessage() for record in caplog.records if "quarantined" in record.getMessage()]
    pictures = [line for line in told if ".gif" in line]
    assert len(pictures) == 3
    assert [("only listed" in line) for line in pictures] == [False, False, True]
    assert len([line for line in told if "other.bin" in line]) == 1
