"""Validates ``ingestor evaluate``: its scores and its generated questions against real ones.

``python -m benchmarks evaluate``: three corpora of the Chroma report and their 276 questions, all corpora as
one collection, all-MiniLM-L6-v2, exact search. First come the reference rows. Then generated questions are
compared with the real ones for each corpus. The figures are the rank correlation of strategies by recall at
600 tokens, and the error of differences between strategies.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.retrieval import load, model, tokens
from ingestor.cli.chunk_command import choice
from ingestor.evaluate.comparison import Floats
from ingestor.evaluate.cutting import SampleCut, cut
from ingestor.evaluate.made_questions import make_questions
from ingestor.evaluate.ranking import nearest
from ingestor.evaluate.sample import Sample, SampledDocument
from ingestor.evaluate.scores import EvalQuestion, Excerpt, Scores, enough, scores
from ingestor.evaluate.strategies import Strategy
from ingestor.llm.client import DirectAnswers
from ingestor.model import Blob, Fingerprint, Item, SourceName
from ingestor.pipeline.metadata import Describing
from ingestor.pipeline.prepare import Reader, Tools
from tests.minilm import CachedModel

SOURCE = SourceName("report")
BUDGET = 600
REFERENCES = {  # METHODS: recall and IoU at n = 5 on five corpora
    "recursive:size=200": (75.8, 6.2),
    "changepoint:target=125": (82.4, 7.8),
    "cluster:max_tokens=200": (75.7, 7.2),
    "fixed:size=250:overlap=125": (82.9, 3.9),
}
OTHERS = (
    "recursive:size=400", "recursive:size=100", "fixed:size=200", "fixed:size=400:overlap=200",
    "changepoint:target=250", "cluster:max_tokens=400", "sentence", "paragraph", "kmeans", "structure",
    "fixed:size=30", "recursive:size=50", "changepoint:target=50",
)  # fmt: skip


def main() -> None:
    real, sample = corpora()
    print(
        f"{len(real)} questions\n{'strategy':30} chunks tokens  recall@5  IoU@5  recall {BUDGET}  (METHODS)"
    )
    found = {}
    for name in (*REFERENCES, *OTHERS):
        made_by = cut_by(name, sample)
        found[name] = made_by
        row = scores_of(real, made_by)
        known = REFERENCES.get(name)
        print(
            f"{name:30} {len(made_by.places):6} {made_by.mean_tokens:6.0f} {100 * row.recall.mean():9.1f}"
            f" {100 * row.iou.mean():6.1f} {100 * row.at[BUDGET].mean():11.1f}  {known or ''}",
            flush=True,
        )
    print("\nSpearman's correlation of strategies' recall, made questions against real ones:")
    for number, name in enumerate(sample.names):
        ours = [
            q
            for q in make_questions([each.document for each in sample.documents], 10_000)
            if _about(q, number)
        ]
        theirs = [q for q in real if _about(q, number)]
        of_made = [scores_of(ours[:150], each).at[BUDGET].mean() for each in found.values()]
        of_real = [scores_of(theirs, each).at[BUDGET].mean() for each in found.values()]
        off = [100 * abs((m - of_made[1]) - (r - of_real[1])) for m, r in zip(of_made, of_real, strict=True)]
        print(
            f"  {name:20} {len(ours[:150]):4} made, {len(theirs):4} real: {spearman(of_made, of_real):.2f},"
            f" differences from {list(found)[1]} are off by {np.mean(off):.1f} points"
        )


def corpora() -> tuple[list[EvalQuestion], Sample]:
    """Return the report's questions, and its corpora as documents of one sample. Raises Missing."""
    documents, asked = load()
    numbers = {name: number for number, name in enumerate(documents)}
    real = [
        EvalQuestion(each.text, tuple(Excerpt(numbers[each.corpus], a, b) for a, b in each.excerpts))
        for each in asked
    ]
    found = tuple(
        SampledDocument(SOURCE, Item(name, "", name), document) for name, document in documents.items()
    )
    return real, Sample(found, len(found))


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    ranks: list[Floats] = [np.argsort(np.argsort(each)).astype(np.float64) for each in (a, b)]
    return float(np.corrcoef(ranks)[0, 1])


def _about(question: EvalQuestion, number: int) -> bool:
    return question.excerpts[0].document == number


def cut_by(name: str, sample: Sample, embedder: CachedModel | None = None) -> SampleCut:
    reader = embedder or model()
    kind, *options = name.split(":")
    strategy = Strategy(choice(kind, options, name))
    tools = Tools(
        reader=Reader(SOURCE, _nothing, {}, {}),
        chunker=strategy.choice.plugin.build(strategy.choice.options, tokens()),
        chunker_recipe=Fingerprint(""),
        describing=Describing(SOURCE, kind),
        embed=reader.embed,
        embedder_recipe=Fingerprint(""),
        count_tokens=tokens().counts,
        exceeds_window=reader.exceeds_window,
    )
    return cut(strategy, sample, {SOURCE: tools}, tokens(), DirectAnswers(), lambda key: None)


def _nothing(item: Item) -> Blob:
    raise AssertionError(item)


def scores_of(questions: Sequence[EvalQuestion], made_by: SampleCut) -> Scores:
    vectors = model().embed([question.text for question in questions])
    ranked = nearest(vectors, made_by.vectors, enough(made_by.places, BUDGET))
    return scores(questions, ranked, made_by.places, [BUDGET])
