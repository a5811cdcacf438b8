"""What ``plan`` announces is what a sync then counts, over random changes of a small world."""

from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from ingestor.core.fingerprint import Fingerprint
from ingestor.engine import outcomes
from ingestor.llm.answers import DryRunAnswers
from ingestor.queries import plan as planning
from ingestor.queries.plan import Recorder, Rehearsal
from ingestor.state.editions import Editions
from tests.simulation.checks.at_rest import check
from tests.simulation.play import NAMES, common, text
from tests.simulation.world import DOCS, World

DEEDS = ["edit", "edit", "delete", "rename", "swap", "touch", "copy", "chain", "tree", "write"]


def planned(world: World) -> Rehearsal:
    parts, live = world.loop.running.parts, Editions(world.journal).live(DOCS)
    sources = parts.sources(DOCS, live.name, parts.embedder.embed, memory=world.loop.running.memory)
    recorder = Recorder(None, Fingerprint("none"), 4, lambda texts: np.zeros((len(texts), 4), np.float32))
    dry_run = DryRunAnswers(None, lambda texts: [len(each) for each in texts])
    with TemporaryDirectory() as folder, closing(world.journal.copy_to(Path(folder) / "copy")) as copy:
        plan = Rehearsal(copy, recorder, dry_run, lambda texts: [0 for _ in texts])
        plan.run(sources)
        return plan


def change(world: World, random: Random) -> None:
    for _ in range(random.randrange(1, 4)):
        deed, keys = random.choice(DEEDS), sorted(world.files.contents)
        if deed == "write" or not keys:
            world.files.write(random.choice(NAMES), text(random))
        else:
            common(world.files, random, deed, random.choice(keys))


def rounds(folder: Path, seed: int, number: int = 12) -> Counter[str]:
    """What was announced and done in one world; fails where the two differ."""
    random, world, total = Random(seed), World(folder, seed), Counter[str]()
    for name in NAMES[:8]:
        world.files.write(name, text(random) + "\nwords")
    world.settle()
    for _ in range(number):
        change(world, random)
        plan = planned(world)
        before = world.engine.writer.counts.tally()
        world.settle()
        assert all("a sync would remove nothing" in reason for reason in plan.unseen.values()), plan.unseen
        if plan.unseen:  # a sync asks first
            continue
        done = world.engine.writer.counts.tally() - before
        announced = {
            name: plan.total.documents[name]
            for name in ("added", "changed", "moved", "rebuilt", "recut", "removed")
        }
        announced |= {
            f"records_{name}": plan.total.records[name]
            for name in ("added", "replaced", "patched", "dropped")
        }
        assert done == Counter(announced)
        total.update(announced)
    check(world)
    world.end()
    return total


def histories(folder: Path, seeds: range) -> Counter[str]:
    total = Counter[str]()
    for seed in seeds:
        (folder / str(seed)).mkdir()
        total += rounds(folder / str(seed), seed)
    return total


def test_plan_announces_what_a_sync_counts(tmp_path: Path, few: bool) -> None:
    seen = histories(tmp_path, range(2 if few else 8))
    assert all(seen[name] > 2 for name in ("added", "changed", "moved", "removed", "records_dropped")), seen


def test_plan_by_other_rules_than_sync_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that takes renamed documents for new ones."""

    def by_content(prepared, *, building):  # type: ignore[no-untyped-def]
        found = outcomes.action_of(prepared, building=building)
        return "added" if found == "moved" else found

    monkeypatch.setattr(planning, "action_of", by_content)
    with pytest.raises(AssertionError, match="moved"):
        histories(tmp_path, range(8))
