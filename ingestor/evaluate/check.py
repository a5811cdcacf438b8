"""Measures recall of a collection in Chroma with saved questions, for ``ingestor evaluate --check``.

The recall of each question is stored beside the file of questions. Later checks compare with that recall.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ingestor.config.models import Config
from ingestor.evaluate import workplace
from ingestor.evaluate.comparison import Interval, compare
from ingestor.evaluate.question_file import RefusedQuestion
from ingestor.evaluate.sample import Progress
from ingestor.evaluate.scores import ChunkPlace, score, within
from ingestor.evaluate.workplace import EvaluationRequest
from ingestor.model import CollectionName, Hit, Vectors
from ingestor.ports import NeedsHuman
from ingestor.queries.access import BadRequest, collections_of, journal_of
from ingestor.state import run_status
from ingestor.state.editions import Editions
from ingestor.state.run_status import CheckResult
from ingestor.units import quantity

_ELSEWHERE = -1  # number of a document without questions
_AT_FIRST = 32  # hits for a question; more are requested until the budget is full

Count = Callable[[Sequence[str]], list[int]]  # counts the tokens of each text
Recall = Mapping[str, float]  # of each question by its text, 0 to 1


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Request to check the recall of a collection in Chroma.

    ``questions``: file of questions. ``sample``: number of documents to read. ``budget``: number of retrieved
    tokens at which recall is measured. ``tolerance``: how far recall may fall, from 0 to 1. ``accept``:
    whether to store the measured recall in place of that of the earlier check.
    """

    collection: CollectionName
    questions: Path
    sample: int
    budget: int
    tolerance: float
    accept: bool

    @property
    def recall_file(self) -> Path:
        """Return the path of the file that stores the recall of each question."""
        return self.questions.with_name(f"{self.questions.name}.recall.json")


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of a check of a collection's recall.

    ``recall``: recall of each question, by the question's text, from 0 to 1. ``mean``: the mean of these.
    ``before``: the recall that an earlier check stored; None if there was no earlier check, or if the request
    replaced it.
    """

    request: CheckRequest
    recall: Recall
    mean: Interval
    before: Recall | None
    refused: Sequence[RefusedQuestion]

    @property
    def fell(self) -> float:
        """Return how far mean recall fell since the earlier check; negative if it rose.

        Only questions that both checks asked are compared.
        """
        both = self.recall.keys() & (self.before or {}).keys()
        fallen = [self.before[text] - self.recall[text] for text in both] if self.before else []
        return sum(fallen) / len(fallen) if fallen else 0.0

    @property
    def is_within_tolerance(self) -> bool:
        return self.fell <= self.request.tolerance + 1e-9

    def worst(self, count: int) -> list[tuple[str, float, float]]:
        """Return the ``count`` questions whose recall fell most, each with its recall before and now."""
        pairs = [(text, (self.before or {}).get(text, now), now) for text, now in self.recall.items()]
        fallen = sorted((pair for pair in pairs if pair[1] > pair[2]), key=lambda pair: pair[2] - pair[1])
        return fallen[:count]


def check(config: Config, request: CheckRequest, progress: Progress, now: float) -> Checked:
    """Measure the recall of a collection in Chroma, and compare it with the recall of an earlier check.

    The first check stores its recall. The result is also recorded for the daemon's metrics. ``now``: POSIX
    seconds. Raises BadRequest for unusable questions, and NeedsHuman if the collection is missing.
    """
    before = _last_recall(request)
    needed = EvaluationRequest(request.collection, questions=request.questions, sample=request.sample)
    with workplace.open_workplace(config, needed, progress) as place:
        (questions,), refused = workplace.read_questions(request.questions, [place.sample])
        progress(f"asking {quantity(len(questions), 'question')}")
        asked = place.parts.query_vectors([question.text for question in questions])
        numbers = {each.item.uri: at for at, each in enumerate(place.sample.documents)}
        rankings = _rank_all(config, request, asked, numbers, place.parts.tokens.counts)
    recalls = [
        score(question.excerpts, list(within(places, request.budget))).recall
        for question, places in zip(questions, rankings, strict=True)
    ]
    mean = compare(np.array([recalls]), workplace.same_documents(questions)).means[0]
    recall = {question.text: value for question, value in zip(questions, recalls, strict=True)}
    if before is None:
        stored = {"collection": request.collection, "budget": request.budget, "recall": recall}
        request.recall_file.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", "utf-8")
    checked = Checked(request, recall, mean, before, refused)
    fell, passed = checked.fell, checked.is_within_tolerance
    result = CheckResult(request.collection, request.questions.name, mean.mean, fell, passed, now)
    run_status.write_check(config.state, result)
    return checked


def _rank_all(
    config: Config, request: CheckRequest, asked: Vectors, numbers: Mapping[str, int], count: Count
) -> list[list[ChunkPlace]]:
    """Search the collection for each question, and return the places of the best hits that fill the budget.

    The hits of a question are ordered best first. ``asked``: vectors of the questions. ``numbers``: numbers
    of the sampled documents, by address. Raises NeedsHuman if the collection is not in Chroma.
    """
    with journal_of(config) as journal, collections_of(config, journal) as collections:
        index = collections.edition(Editions(journal).live(CollectionName(request.collection)))
        if index is None:
            raise NeedsHuman(f"collection {request.collection!r} is not in Chroma; run: ingestor sync")
        every, n = index.count(), _AT_FIRST
        while True:  # until the hits fill the budget, or are all records
            hits = index.query(asked, n, None)
            rows = [[_place_of(hit, numbers, count) for hit in each] for each in hits]
            if n >= every or all(sum(each.tokens for each in row) >= request.budget for row in rows):
                return rows
            n *= 2


def _place_of(hit: Hit, numbers: Mapping[str, int], count: Count) -> ChunkPlace:
    """Return the place of a hit in its document. The number of a document outside the sample is -1."""
    meta = hit.metadata
    start, end = (int(str(meta.get(key) or 0)) for key in ("start_index", "end_index"))
    tokens = int(str(meta.get("token_count") or count([hit.text])[0]))  # some profiles omit the field
    return ChunkPlace(numbers.get(str(meta.get("source")), _ELSEWHERE), ((start, end),), max(1, tokens))


def _last_recall(request: CheckRequest) -> Recall | None:
    """Return the recall that an earlier check stored; None if there is none, or if the request replaces it.

    Raises BadRequest if the file is damaged, or is about another collection or budget.
    """
    if request.accept or not request.recall_file.exists():
        return None
    try:
        stored = json.loads(request.recall_file.read_text("utf-8"))
        kept = {str(text): float(value) for text, value in stored["recall"].items()}
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise BadRequest(f"{request.recall_file} cannot be read; --accept writes it again") from error
    if (stored.get("collection"), stored.get("budget")) != (request.collection, request.budget):
        raise BadRequest(
            f"{request.recall_file} is about collection {stored.get('collection')!r} at "
            f"{stored.get('budget')} tokens; check that one, or write it again with --accept"
        )
    return kept
