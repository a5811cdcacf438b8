"""What a changed config is taken to mean, as a table; and how choices survive the journal."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingestor.config.file import load
from ingestor.config.models import Config, Rechunk
from ingestor.core.entries import Edition, EditionName
from ingestor.model import CollectionName, Fingerprint, SourceName
from ingestor.rechunk.policy import (
    CollectionSituation,
    EditionSetup,
    NotReproducible,
    as_chosen,
    changes,
    choices_of,
    decide,
    editions_of,
    fingerprint_of,
    merge,
    model_prices,
    without_unused,
)

C, RULES = CollectionName("docs"), Fingerprint("rules")


def wants(size: int = 100, embedder: str = "e", **more: Any) -> dict[str, Any]:
    chunking = {"kind": "recursive", "version": 1, "options": {"size": size}}
    source = {"chunking": chunking, "parsing": {}}
    embedding = {"kind": "hashing", "version": 1, "options": {}, "recipe": embedder}
    return {"embedding": embedding, "sources": {"a": source, **more}}


OLD, NEW, OTHER = wants(100), wants(50), wants(100, "other")
IN_PLACE, SWAP = Rechunk(mode="in_place"), Rechunk()
ASKING = Rechunk(mode="in_place", approve="above 10 chunks")
PAYING = Rechunk(mode="in_place", approve="above 0.5", price=1.0)


def now(
    live: Any = OLD, building: Any = None, embedder: str = "e", wanted: Any = NEW, **more: Any
) -> CollectionSituation:
    return CollectionSituation(live, building, embedder, wanted, **more)


TABLE = [
    ("nothing is there yet", now(None, empty=True), SWAP, "follow"),
    ("an empty collection is not swapped", now(OLD, empty=True), SWAP, "follow"),
    ("a journal from before choices were kept", now(None), SWAP, "follow"),
    ("the same, and another embedder", now(None, embedder="x"), IN_PLACE, "build"),
    ("nothing changed", now(wanted=OLD), SWAP, "follow"),
    ("other chunks, in place", now(), IN_PLACE, "follow"),
    ("other chunks, by swap", now(), SWAP, "build"),
    ("another embedder is never in place", now(wanted=OTHER), IN_PLACE, "build"),
    ("a swap under way goes on", now(building=NEW), SWAP, "continue"),
    ("a second change drops it, too", now(building=wants(70)), SWAP, "build"),
    ("a change back drops it", now(building=NEW, wanted=OLD), SWAP, "follow"),
    ("a new source needs no swap", now(wanted=wants(b=NEW["sources"]["a"])), SWAP, "follow"),
    ("so many chunks need no approval", now(chunks=10), ASKING, "follow"),
    ("more wait for one", now(chunks=11), ASKING, "keep"),
    ("until they have it", now(chunks=11, approved=fingerprint_of(NEW)), ASKING, "follow"),
    ("approved was another config", now(chunks=11, approved=fingerprint_of(OTHER)), ASKING, "keep"),
    ("the cost of so many tokens is allowed", now(tokens=500_000), PAYING, "follow"),
    ("more wait", now(tokens=500_001), PAYING, "keep"),
    ("what language models take counts", now(tokens=500_000, asking=0.01), PAYING, "keep"),
    ("the same config on another machine waits", now(wanted=OTHER, moved=True), SWAP, "keep"),
    ("until it has approval", now(wanted=OTHER, moved=True, approved=fingerprint_of(OTHER)), SWAP, "build"),
    ("a swap that was approved goes on", now(building=OTHER, wanted=OTHER, moved=True), SWAP, "continue"),
    ("what was rolled back stays so", now(refused=fingerprint_of(NEW)), SWAP, "keep"),
    ("search misses records", now(wanted=OLD, rebuild="so"), IN_PLACE, "build"),
    ("the rebuild goes on", now(building=OLD, wanted=OLD, rebuild="so"), SWAP, "continue"),
    ("a change on the way drops it", now(building=OLD, rebuild="so"), IN_PLACE, "build"),
    ("an empty collection needs no rebuild", now(empty=True, rebuild="so"), SWAP, "follow"),
    ("a rebuild by the old config", now(chunks=11, rebuild="so"), ASKING, "build"),
    ("but not the next config", now(refused=fingerprint_of(NEW), wanted=wants(70)), SWAP, "build"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("situation", "rechunk", "act"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_changed_config_leads_to_the_expected_act(
    situation: CollectionSituation, rechunk: Rechunk, act: str
) -> None:
    decision = decide(situation, rechunk)
    assert decision.act == act
    assert bool(decision.why) == (act == "keep" or (situation.chunks > 10 and act == "build"))


def test_waiting_change_keeps_old_sources_and_accepts_new_sources() -> None:
    wanted = wants(50, b=NEW["sources"]["a"])
    decision = decide(now(wanted=wanted, chunks=11), ASKING)
    assert decision.choices == merge(OLD, wanted)
    assert decision.choices["sources"] == {"a": OLD["sources"]["a"], "b": NEW["sources"]["a"]}
    assert "chunking.size: 100 -> 50" in map(str.strip, str(decision.changes[0]).split(":", 1)[1:])


CONFIG = """
embedding: {{kind: hashing, dimensions: {dimensions}}}
chunking: {chunking}
workers: {workers}
sources:
  - {{name: a, kind: folder, path: {folder}, collection: docs}}
"""


def config(folder: Path, chunking: str = "{strategy: recursive, size: 200}", **other: Any) -> Config:
    (folder / "docs").mkdir(exist_ok=True)
    values = {"dimensions": 64, "workers": 4, "chunking": chunking, "folder": folder / "docs", **other}
    (folder / "config.yaml").write_text(CONFIG.format(**values))
    return load(folder / "config.yaml", {})


def choose(found: Config) -> Any:
    return choices_of(found, C, Fingerprint("e"), RULES)


def test_tuning_options_change_no_recipe(tmp_path: Path) -> None:
    assert changes(choose(config(tmp_path)), choose(config(tmp_path, workers=9))) == []


@pytest.mark.parametrize(
    ("chunking", "said"),
    [
        ("{strategy: recursive, size: 90}", "a: chunking.size: 200 -> 90"),
        ("{strategy: sentence}", "a: chunking.strategy: recursive -> sentence"),
    ],
)
def test_changes_name_source_and_key(tmp_path: Path, chunking: str, said: str) -> None:
    found = changes(choose(config(tmp_path)), choose(config(tmp_path, chunking)))
    assert [str(one) for one in found] == [said]


ASKED = "base_url: http://m/v1, model: m, prompt_price: 2, answer_price: 3"


@pytest.mark.parametrize(
    ("chunking", "price"),
    [
        ("{strategy: recursive}", 0.0),
        (f"{{strategy: llm, {ASKED}}}", 5.0),
        (f"{{strategy: auto, prose: {{strategy: proposition, {ASKED}}}}}", 5.0),
    ],
)
def test_price_of_a_source_is_that_of_its_language_model(tmp_path: Path, chunking: str, price: float) -> None:
    assert model_prices(config(tmp_path, chunking), C) == {"a": price}


def test_old_choices_are_had_again_from_the_journal(tmp_path: Path) -> None:
    old = config(tmp_path, "{strategy: cluster, max_tokens: 300}")
    kept = json.loads(json.dumps(choose(old)))
    today = config(tmp_path, dimensions=32, workers=9)
    again = as_chosen(today, kept, RULES)
    assert (again.embedding, again.sources[0].chunking) == (old.embedding, old.sources[0].chunking)
    assert again.workers.count == 9
    assert choose(again) == choose(old)


def test_stored_recipe_without_an_added_option_keeps_the_former_behaviour(tmp_path: Path) -> None:
    """So a collection that an earlier version made is kept by its recipe while another edition is built."""
    today = config(tmp_path, "{strategy: changepoint}")
    before = config(tmp_path, "{strategy: changepoint, by_type: {}}")
    kept = json.dumps(choose(before))
    assert '"by_type":' not in kept
    assert as_chosen(today, json.loads(kept), RULES).sources[0].chunking == before.sources[0].chunking


def test_added_option_is_a_change_that_plans_announce(tmp_path: Path) -> None:
    before, today = (config(tmp_path, f"{{strategy: changepoint{more}}}") for more in (", by_type: {}", ""))
    found = changes(choose(before), choose(today))
    assert [str(one).partition("{")[0] for one in found] == ["a: chunking.by_type: null -> "]


@pytest.mark.parametrize(("key", "value"), [("version", 999), ("kind", "gone"), ("options", {"nonsense": 1})])
def test_recipe_that_cannot_be_reproduced_raises_with_a_reason(
    tmp_path: Path, key: str, value: object
) -> None:
    today = config(tmp_path)
    kept = dict(choose(today))
    kept["embedding"] = {**kept["embedding"], key: value}
    with pytest.raises(NotReproducible):
        as_chosen(replace(today, workers=1), kept, RULES)


def test_changed_types_are_a_change(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    source = "sources: [{name: a, kind: folder, path: docs, collection: docs}]\n"
    file.write_text(source)
    plain = load(file, {})
    file.write_text("parsing: {types: {'*.txt': rst}}\n" + source)
    typed = load(file, {})
    before, after = (json.loads(json.dumps(choices_of(config, C, RULES, RULES))) for config in (plain, typed))
    assert [str(change) for change in changes(before, after)] == [
        'a: parsing.types: {} -> {"*.txt": "text/x-rst"}'
    ]
    assert changes(after, after) == []
    assert as_chosen(plain, after, RULES).sources[0].types == typed.sources[0].types
    assert as_chosen(typed, before, RULES).sources[0].types == ()
    assert "types" not in merge(before, after)["sources"]["a"]


def test_parsers_without_documents_are_omitted(tmp_path: Path) -> None:
    choices = choose(config(tmp_path))
    left = without_unused(choices, {SourceName("a"): {"html"}})
    assert set(left["sources"]["a"]["parsing"]) == {"html"}
    assert without_unused(choices, {})["sources"]["a"]["parsing"] == {}
    assert {**left, "sources": 0} == {**choices, "sources": 0}


LIVE = Edition(EditionName("docs"), C, "live", OLD)
BUILT = Edition(EditionName("docs--2"), C, "staging", NEW)


@pytest.mark.parametrize(
    ("situation", "rechunk", "setups"),
    [
        (now(wanted=OLD, editions=(LIVE,)), SWAP, [EditionSetup(C, LIVE.name, OLD)]),
        (now(editions=(LIVE,)), IN_PLACE, [EditionSetup(C, LIVE.name, NEW)]),
        (
            now(editions=(LIVE,)),
            SWAP,
            [EditionSetup(C, LIVE.name, OLD), EditionSetup(C, None, NEW, building=True)],
        ),
        (
            now(building=NEW, editions=(LIVE, BUILT)),
            SWAP,
            [EditionSetup(C, LIVE.name, OLD), EditionSetup(C, BUILT.name, NEW, building=True)],
        ),
        (now(building=NEW, wanted=OLD, editions=(LIVE, BUILT)), SWAP, [EditionSetup(C, LIVE.name, OLD)]),
        (now(chunks=11, editions=(LIVE,)), ASKING, [EditionSetup(C, LIVE.name, OLD)]),
        (  # choices that are unknown
            now(None, embedder="x", editions=(replace(LIVE, choices=None),)),
            SWAP,
            [EditionSetup(C, LIVE.name, None), EditionSetup(C, None, NEW, building=True)],
        ),
    ],
)
def test_editions_to_keep_in_step_follow_from_the_decision(
    situation: CollectionSituation, rechunk: Rechunk, setups: list[EditionSetup]
) -> None:
    assert editions_of(situation, decide(situation, rechunk)) == setups
