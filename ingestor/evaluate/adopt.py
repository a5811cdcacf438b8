"""Writes recommended strategies into the config file, for ``ingestor evaluate --write``."""

from collections.abc import Mapping
from dataclasses import replace
from os import environ
from pathlib import Path
from shutil import copymode

from ingestor.config.file import check_text
from ingestor.config.models import Config, ConfigError
from ingestor.config.rewrite import NotRewritable, places, with_chunking
from ingestor.evaluate.evaluation import Evaluation
from ingestor.evaluate.strategies import Strategy, is_same_choice
from ingestor.model import SourceName
from ingestor.ports import NeedsHuman


def recommend(config: Config, evaluation: Evaluation) -> dict[SourceName, Strategy]:
    """Return the sources whose chunking should change, each with its recommended strategy.

    Raises NeedsHuman if the recommendation has settings besides the chunking: these cannot be written into
    the config.
    """
    pick = evaluation.outcomes[evaluation.verdict.pick].cut.strategy
    if pick.extras:
        raise NeedsHuman(
            f"the config file is unchanged, because {pick.name} sets more than "
            "chunking: copy the printed YAML into it"
        )
    own = {
        each.name: each.chunking
        for each in config.sources
        if each.collection == evaluation.request.collection
    }
    wanted = {name: pick for name, choice in own.items() if not is_same_choice(choice, pick.of(name))}
    return wanted | {
        SourceName(each.source): evaluation.outcomes[each.pick].cut.strategy for each in evaluation.better_for
    }


def adopt(config: Config, wanted: Mapping[SourceName, Strategy], comment: str) -> Path:
    """Write new chunkings into the config file, and change nothing else. Return the file's path.

    ``wanted``: the strategy of each source whose chunking changes. ``comment``: a comment above the new
    lines. Raises NeedsHuman if the file cannot be changed line by line, or if somebody edited the file
    meanwhile.
    """
    file, text = config.origin.file.resolve(), config.origin.text
    try:
        blocks: dict[
            str, str
        ] = {}  # YAML by place; a strategy that sources share is written once if possible
        for strategy in {each.name: each for each in wanted.values()}.values():
            sharing = [name for name, each in wanted.items() if each.name == strategy.name]
            blocks |= dict.fromkeys(places(text, sharing), strategy.yaml)
        changed = with_chunking(text, blocks, comment)
        _check(config, check_text(file, changed, environ), wanted)
    except (NotRewritable, ConfigError) as error:
        raise NeedsHuman(f"{file} is not changed: {error}; paste the printed YAML yourself") from error
    if file.read_text("utf-8-sig") != text:
        raise NeedsHuman(
            f"{file} is not changed: somebody edited it during the evaluation; "
            "paste the printed YAML yourself"
        )
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(changed, "utf-8")
    copymode(file, fresh)
    fresh.replace(file)
    return file


def _check(old: Config, new: Config, wanted: Mapping[SourceName, Strategy]) -> None:
    """Raise NotRewritable unless the new config is the old config with the wanted chunkings."""
    own = {source.name: source.chunking for source in old.sources}
    for source in new.sources:
        expected = wanted[source.name].choice if source.name in wanted else own[source.name]
        if not is_same_choice(expected, source.chunking):
            raise NotRewritable(f"the chunking of source {source.name!r} would not be as recommended")
    sources = tuple(
        replace(ours, chunking=theirs.chunking) for ours, theirs in zip(old.sources, new.sources, strict=True)
    )
    if replace(old, chunking=new.chunking, sources=sources, warnings=new.warnings) != new:
        raise NotRewritable("more than the chunking would change")
