"""``plan``: what a sync would do, and its time, cost and disk space."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ingestor.app.handover import gone_sources, leaving, rehearsed, renamed
from ingestor.app.parts import Parts, made_by
from ingestor.config import servers
from ingestor.config.models import Config
from ingestor.core.completeness import Skipped
from ingestor.model import Vectors
from ingestor.pipeline.answers import DryRunAnswers
from ingestor.ports import Embed, Remote
from ingestor.queries import needs
from ingestor.queries.access import is_running, journal_or_blank
from ingestor.queries.changes import outlook
from ingestor.queries.inventory import unusable
from ingestor.queries.needs import Needs
from ingestor.queries.plan import Plan, Recorder, Rehearsal, Sampling, silently
from ingestor.queries.summary import DocumentCounts, RecordCounts
from ingestor.rechunk import policy
from ingestor.rechunk.recipes import Change
from ingestor.registry import find
from ingestor.state.cache import Parses, VectorCache
from ingestor.state.editions import Editions
from ingestor.state.files import cache_path
from ingestor.state.queries.reports import Reports

SAMPLE = 64  # texts embedded to measure the rate if none is known; of fewer, what goes before weighs too much


@dataclass(frozen=True, slots=True)
class CollectionChange:
    """Changes of a collection that a changed config means.

    ``metadata``: another choice of metadata keys. ``swap``: whether a second collection is built, which then
    takes the name. ``chunks``: records of the documents that change. ``waits``: why `apply` is needed.
    """

    collection: str
    changes: tuple[Change, ...] = ()
    metadata: Change | None = None
    swap: bool = False
    chunks: int = 0
    waits: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingPlan:
    """Texts and tokens to embed, without cached ones. ``exact``: whether they are no estimate."""

    texts: int = 0
    tokens: int = 0
    exact: bool = True


@dataclass(frozen=True, slots=True)
class AskingPlan:
    """Estimated requests to language models, without cached ones; ``cost``: of their prompts."""

    calls: int = 0
    prompt_tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """Effects, time, cost and disk of a sync. The fields are keys of ``ingestor plan --json``."""

    documents: DocumentCounts = field(default_factory=DocumentCounts)
    records: RecordCounts = field(default_factory=RecordCounts)
    cuts_known: bool = True  # False: the counts of records are estimates
    embed: EmbeddingPlan = EmbeddingPlan()
    ask: AskingPlan = AskingPlan()
    sources: Mapping[str, DocumentCounts] = field(default_factory=dict)
    changes: tuple[CollectionChange, ...] = ()
    leaving: tuple[str, ...] = ()  # sources that left the config and whose documents stay
    renamed: Mapping[str, str] = field(default_factory=dict)  # sources: new names by old ones
    cost: float = 0.0  # of embedding, if the config has a price
    needs: Needs = field(default_factory=Needs)  # of the new records, estimated
    sampled: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # by source: documents read, and due
    tokens_per_second: float | None = None
    seconds: float | None = None  # of embedding; None if no rate is known
    problems: tuple[tuple[str, str], ...] = ()  # document or source, with the reason
    skipped: tuple[Skipped, ...] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)  # sources that could not be listed whole
    unusable: Mapping[str, str] = field(default_factory=dict)  # collections with the reason
    running: bool = False  # whether a daemon or a sync runs
    follows: str | None = None  # the config file of what runs, if it is another one
    restart: tuple[str, ...] = ()  # keys for which what runs takes over nothing of the config

    @property
    def complete(self) -> bool:
        """Whether every source and collection could be examined, and no document failed."""
        return not (self.unseen or self.unusable or self.documents.failed)


def make_plan(
    config: Config, sample: Sampling | None = None, say: Callable[[str], None] = silently
) -> SyncPlan:
    """Reads sources, journal and Chroma; writes nothing, not even a new journal.

    ``sample``: of large sources some documents are read; None: all that are due. ``say``: as of a plan.
    """
    cache = VectorCache(cache_path(config), config.cache_size) if cache_path(config).exists() else None
    with journal_or_blank(config) as now, rehearsed(config, now) as journal:
        parts = Parts(config, made_by(now))
        width = parts.embedder.dimensions
        recorder = Recorder(cache, parts.embedder_recipe, width, look_alikes(width))
        dry_run = DryRunAnswers(cache, parts.tokens.counts)
        memory = None if cache is None else Parses(cache, learns=False)
        expected = outlook(parts, journal)
        sources = [
            source
            for each in expected
            for source in parts.sources(each.serves, each.edition, recorder, dry_run, memory)
        ]
        remote = isinstance(parts.embedder, Remote)
        count = parts.embedder.count if remote else parts.tokens.counts
        replaced = {
            each.edition: Editions(journal).live(each.serves).name for each in expected if each.another
        }
        records = sum(Reports(journal).records(each.edition) for each in expected)
        beside = sum(map(Reports(journal).records, replaced.values()))
        wrong, going = unusable(config, journal), leaving(config, journal)
        plan = Rehearsal(journal, recorder, dry_run, count, replaced, sample, say).plan(sources, going)
        staying = tuple(name for name in gone_sources(config, journal) if name not in going)
        renames = renamed(config, now)
        rate = journal.get("tokens_per_second")
    # A server is not asked, since that may cost money.
    if plan.texts >= SAMPLE and rate is None and not remote:
        rate = str(_measure(parts, list(recorder.missing.values())[:SAMPLE]))
    speed = float(rate) if rate else None
    seconds = plan.tokens / speed if speed else None if plan.tokens else 0.0
    return SyncPlan(
        documents=DocumentCounts(**plan.documents),
        records=RecordCounts(**plan.records),
        cuts_known=plan.cuts_known,
        embed=EmbeddingPlan(plan.texts, plan.tokens, plan.exact),
        ask=AskingPlan(plan.asks, plan.prompt_tokens, round(plan.cost, 6)),
        sources={name: DocumentCounts(**counts) for name, counts in plan.sources.items()},
        changes=tuple(
            CollectionChange(
                each.serves,
                tuple(each.decision.changes),
                each.described or None,
                each.another,
                each.chunks,
                each.waits or None,
            )
            for each in expected
            if each.decision.changes or each.another or each.described
        ),
        leaving=staying,
        renamed={str(old): str(new) for old, new in renames.items()},
        cost=policy.cost(plan.tokens, config.rechunk),
        needs=_needs(config, plan, records, beside, width, seconds),
        sampled=plan.sampled,
        tokens_per_second=speed,
        seconds=seconds,
        problems=tuple(plan.problems),
        skipped=tuple(plan.skipped.found()),
        unseen=plan.unseen,
        unusable=wrong,
        running=is_running(config),
    )


def _needs(
    config: Config, plan: Plan, records: int, beside: int, dimensions: int, seconds: float | None
) -> Needs:
    """Estimate disk, memory and time of a plan.

    ``records``: number by now in the collections that are written. ``beside``: number in those that they
    replace, which Chroma has loaded meanwhile. ``seconds``: of embedding."""
    added, chroma = plan.records["added"], config.chroma
    prices = chroma.prices if isinstance(chroma, servers.RemoteChroma) else servers.Prices()
    sent = needs.gibibytes(added, plan.added_text, plan.added_metadata, dimensions)
    return Needs(
        disk=needs.disk(added, plan.added_text, plan.texts, dimensions),
        memory=needs.memory(beside + max(0, records + added - plan.records["dropped"]), dimensions),
        read_seconds=plan.seconds,
        write_seconds=needs.write_seconds(added, records),
        embed_seconds=seconds,
        written=sent * prices.written,
        stored=sent * prices.stored,
    )


def look_alikes(dimensions: int) -> Embed:
    """Stand-ins for the vectors of texts that were never embedded: texts with common words are near.

    Measured with all-MiniLM-L6-v2: see docs/commands.md, plan.
    """
    plugin = find("embedders", "hashing")
    narrow = min(max(dimensions, 8), 4096)  # the bounds of the hashing embedder
    embed = plugin.build(plugin.options.model_validate({"dimensions": narrow})).embed

    def made(texts: Sequence[str]) -> Vectors:
        wide: Vectors = np.pad(embed(texts), ((0, 0), (0, max(0, dimensions - narrow))))
        return wide[:, :dimensions]

    return made


def _measure(parts: Parts, sample: list[str]) -> float:
    parts.embedder.embed(sample[:2])  # loads the model
    begun = time.monotonic()
    parts.embedder.embed(sample)
    return sum(parts.tokens.counts(sample)) / max(1e-6, time.monotonic() - begun)
