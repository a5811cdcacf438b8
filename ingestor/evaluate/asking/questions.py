"""Has the language model of the config write questions about a sample, through the cache."""

from itertools import count

from ingestor.evaluate.asking.estimate import of_questions
from ingestor.evaluate.costs import ModelUse
from ingestor.evaluate.questions.csv_file import RefusedQuestion
from ingestor.evaluate.questions.passages import passages
from ingestor.evaluate.questions.written import Manner, filter_questions, write_questions
from ingestor.evaluate.scores import EvalQuestion
from ingestor.evaluate.workplace import Workplace
from ingestor.llm.client import LanguageModel
from ingestor.llm.options import Endpoint
from ingestor.pipeline.answers import DryRunAnswers
from ingestor.units import counted


def ask(
    place: Workplace, endpoint: Endpoint, number: int
) -> tuple[list[EvalQuestion], list[RefusedQuestion]]:
    """Return at most ``number`` questions, and the refused ones. Raises Transient or NeedsHuman."""
    texts, done = _texts(place), count(1)
    place.progress(f"asking {endpoint.model} for {counted(number, 'question')}")
    manner = Manner(
        LanguageModel(endpoint, place.answers),
        endpoint.concurrency,
        place.answers.stop,
        lambda: place.progress(f"asking {endpoint.model}: {next(done):,} of {counted(number, 'question')}"),
    )
    questions, refused = write_questions(texts, passages(texts, number), manner)
    kept, others = filter_questions(questions, texts, place.embedding, place.parts.query_vectors)
    return kept, [*refused, *others]


def estimate_requests(place: Workplace, endpoint: Endpoint, number: int) -> ModelUse:
    """Estimate the requests for ``number`` questions without sending any."""
    texts = _texts(place)
    dry_run = DryRunAnswers(place.cache, place.parts.tokens.counts)
    manner = Manner(LanguageModel(endpoint, dry_run), 1, lambda: None, lambda: None)
    write_questions(texts, passages(texts, number), manner)
    return of_questions(endpoint, dry_run.calls, dry_run.prompt_tokens)


def _texts(place: Workplace) -> list[str]:
    return [each.document.text for each in place.sample.documents]
