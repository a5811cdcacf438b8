"""The model by which throughput on many nodes is foretold."""

import pytest

from benchmarks._pipeline_model import Stages, bound, simulated


def test_process_of_the_model_works_in_sequence() -> None:
    found = simulated(Stages(0.0, 3.0, 1.0, 0.0, 0.0), 1, 1, 100)
    assert found.per_second == pytest.approx(1 / 4)
    assert found.busy["embed"] == pytest.approx(1 / 4)
    assert found.narrowest == "prepare"


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_processes_share_the_work(processes: int) -> None:
    found = simulated(Stages(0.001, 1.0, 0.1, 0.01, 0.01), processes, processes, 400)
    assert found.per_second == pytest.approx(processes / 1.1, rel=0.05)


@pytest.mark.parametrize(
    ("stages", "processes", "embedders", "shards", "narrowest"),
    [
        (Stages(0.05, 1.0, 0.1, 0.01, 0.02), 100, 100, 1, "head"),
        (Stages(0.01, 1.0, 0.1, 0.05, 0.02), 100, 100, 1, "writer"),
        (Stages(0.01, 1.0, 0.1, 0.01, 0.05), 100, 100, 1, "chroma"),
        (Stages(0.02, 1.0, 0.1, 0.01, 0.05), 100, 100, 8, "head"),
        (Stages(0.001, 1.0, 0.1, 0.001, 0.001), 100, 1, 1, "prepare"),
    ],
)
def test_more_processes_do_not_pass_the_narrowest_stage(
    stages: Stages, processes: int, embedders: int, shards: int, narrowest: str
) -> None:
    found = simulated(stages, processes, embedders, 3000, shards)
    assert found.per_second == pytest.approx(bound(stages, processes, embedders, shards), rel=0.1)
    if narrowest != "prepare":
        assert found.narrowest == narrowest
    else:
        assert found.busy["embed"] == pytest.approx(1, abs=0.05), "processes wait for the one that embeds"
