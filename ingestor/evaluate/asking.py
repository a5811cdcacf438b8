"""Questions that a language model writes, and estimates of all requests to language models and their cost.

The model sees a passage and the latest questions about the same document, as in Chroma's technical report
[Smith & Troynikov 2024]. It answers with a question on one subject. In the report it also quotes the
excerpts that answer the question. Here it names the numbers of sentences, as small models can. Neighbouring
sentences are one excerpt, which must be in the documents once. If an answer breaks a rule, the model is asked
again, with the reason. Questions about one document are requested one after another, so that they differ;
documents in parallel.

A passage has 4,000 characters at most. A document has passages in proportion to its length. Its n-th passage
depends neither on the number drawn nor on other documents.

Near-duplicates and questions that fit their excerpts badly are refused. The report uses fixed cosines, which
fit one embedding model. Here both bounds follow from the questions, so they fit every model.

- An excerpt fits its question badly when its cosine is below a bound. The bound is the upper decile of the
  cosines between questions and excerpts of *other* questions about the same document. It is 0.29 for
  all-MiniLM-L6-v2 and the report's 276 questions on three corpora; 3 % of their excerpts are below.

- Two questions are near-duplicates when their cosine is nine tenths of the way from the median of all pairs
  to 1. With that model this is above 0.91. The nearest of the report's questions that differ have 0.89.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import ceil

import numpy as np

from ingestor.core.fingerprint import text_digest
from ingestor.evaluate.comparison import Floats
from ingestor.evaluate.cutting import ModelUse, RecordedAnswers, price, rehearse
from ingestor.evaluate.question_file import RefusedQuestion, Sifted
from ingestor.evaluate.scores import EvalQuestion, Excerpt
from ingestor.evaluate.strategies import MOST_COMPARED
from ingestor.evaluate.workplace import EvaluationRequest, Workplace
from ingestor.llm.answers import DryRunAnswers
from ingestor.llm.at_once import in_parallel
from ingestor.llm.client import Ask, LanguageModel, Messages, ask_until_valid, json_object
from ingestor.llm.options import Endpoint
from ingestor.model import Vectors
from ingestor.ports import Embed, Stop
from ingestor.text.sentences import sentences
from ingestor.text.spans import Span
from ingestor.units import quantity


def ask_questions(place: Workplace, endpoint: Endpoint, number: int) -> Sifted:
    """Have a language model write questions about the sampled documents.

    ``number``: number of questions to request. Return the usable questions, and the refused ones with
    reasons. Raises Transient or NeedsHuman.
    """
    texts, done = place.sample.texts, count(1)
    place.progress(f"asking {endpoint.model} for {quantity(number, 'question')}")
    requests = QuestionRequests(
        LanguageModel(endpoint, place.answers, _FIELDS),
        endpoint.concurrency,
        place.answers.stop,
        lambda: place.progress(f"asking {endpoint.model}: {next(done):,} of {quantity(number, 'question')}"),
    )
    questions, refused = write_questions(texts, passages(texts, number), requests)
    kept, others = filter_questions(questions, texts, place.embedding, place.parts.query_vectors)
    return kept, [*refused, *others]


def estimate_questions(place: Workplace, endpoint: Endpoint, number: int) -> ModelUse:
    """Estimate the tokens and cost of requests for ``number`` questions, without sending any."""
    texts = place.sample.texts
    dry_run = DryRunAnswers(place.cache, place.parts.tokens.counts)
    requests = QuestionRequests(LanguageModel(endpoint, dry_run, _FIELDS), 1, lambda: None, lambda: None)
    write_questions(texts, passages(texts, number), requests)
    return _price(endpoint, dry_run.calls, dry_run.prompt_tokens, dry_run.calls * _QUESTION)


TWICE = 5  # one of this many questions has its answers judged twice
_QUESTION, _ANSWER, _VERDICT = 50, 100, 30  # tokens of an answer, about
_TASKS = 600  # tokens of the instructions, the question and the excerpts, about


@dataclass(frozen=True, slots=True)
class AskingEstimate:
    """Estimated requests of an evaluation to language models, made before the first request is sent.

    ``model``: names of all language models that get requests.
    """

    model: str
    use: ModelUse

    @property
    def text(self) -> str:
        use = self.use
        cost = f", which costs about {price(use.cost)}" if use.cost else ""
        return (
            f"language model {self.model}: about {quantity(use.calls, 'request')}, "
            f"{quantity(use.prompt_tokens, 'token')} read and {use.answer_tokens:,} written{cost}"
        )


@dataclass(frozen=True, slots=True)
class AskingUsage:
    """Requests that an evaluation sent to language models, beside the earlier estimate ``expected``.

    ``use``: the requests that were sent; answers from the cache are not counted.
    """

    expected: AskingEstimate
    use: ModelUse


def _price(endpoint: Endpoint, calls: int, prompts: int, answers: int) -> ModelUse:
    cost = prompts * endpoint.prompt_price + answers * endpoint.answer_price
    return ModelUse(calls, prompts, answers, cost / 1e6)


def estimate_requests(
    request: EvaluationRequest, place: Workplace, endpoint: Endpoint | None
) -> AskingEstimate | None:
    """Estimate the requests that an evaluation will send; answers from the cache need no request.

    Each question is answered once for each strategy, and each answer judged. Of every ``TWICE`` questions,
    one has answers that are judged a second time.

    ``endpoint``: the language model that writes questions and judges answers. Return None if the evaluation
    needs no language model.
    """
    compared = [each for each in request.strategies or [place.strategy] if each.models]
    names = [name for each in compared for name in each.models]
    counts = place.parts.tokens.counts
    requested = RecordedAnswers(DryRunAnswers(place.cache, counts), counts)
    rehearse(compared, place.sample, place.tools, place.parts.tokens, requested)
    use = requested.use(answered=False)
    if endpoint is not None:
        names = [endpoint.model, *names]
        judged = request.judge if request.questions is not None else min(request.judge, request.make)
        named = sum(len(each.with_modes(request.modes)) for each in request.strategies)
        most = named or MOST_COMPARED * len(request.modes)  # unknown until documents are cut
        answers, budget = judged * most, request.budgets[0]
        verdicts = answers + ceil(judged / TWICE) * most
        prompts = answers * (budget + _TASKS // 2) + verdicts * (budget + _TASKS)
        use += _price(endpoint, answers + verdicts, prompts, answers * _ANSWER + verdicts * _VERDICT)
        if request.ask_model:
            use += estimate_questions(place, endpoint, request.make)
    return AskingEstimate(", ".join(dict.fromkeys(names)), use) if names else None


_EARLIER = 50  # earlier questions that the request includes
_MOST = 5  # sentences
_LONGEST = 2000  # characters of a question or a sentence
_TASK = """\
You write questions that test a search index. You see the numbered sentences of one passage of a document. \
Write one question that the passage answers, as a person would ask it who does not have the text: about one \
subject, without joining two questions by "and", in the language of the passage, and without words such as \
"the passage" or "the text". Then name the numbers of the sentences that answer it: one to five, only those \
that are needed.
Answer with a JSON object and nothing else:
{"question": "...", "sentences": [...]}"""

_FIELDS = {
    "question": {"type": "string"},
    "sentences": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": _MOST},
}

Wanted = Mapping[int, Sequence[Span]]  # passages, by the number of their document


@dataclass(frozen=True, slots=True)
class QuestionRequests:
    """Functions and limits for requesting questions from a language model.

    ``ask``: sends a request. ``threads``: number of documents about which questions are requested at the same
    time. ``stop``: ends all waits for answers. ``after_each``: called after each passage.
    """

    ask: Ask
    threads: int
    stop: Callable[[], None]
    after_each: Callable[[], None]


def write_questions(texts: Sequence[str], wanted: Wanted, requests: QuestionRequests) -> Sifted:
    """Have a language model write a question about each passage in ``wanted``.

    Return the questions, and the refusals: one for each passage without a valid question. Raises the errors
    of ``requests.ask``.
    """

    def about(at: int) -> Sifted:
        return _about(texts, at, wanted[at], requests)

    results = in_parallel(about, list(wanted), requests.threads, Stop(), requests.stop)
    return [each for one, _ in results for each in one], [each for _, other in results for each in other]


def filter_questions(
    questions: Sequence[EvalQuestion], texts: Sequence[str], embed: Embed, embed_questions: Embed
) -> Sifted:
    """Separate usable questions from refused ones, and return both lists.

    A question is refused if an excerpt answers it badly, or if the question nearly repeats another one. The
    module's docstring explains both bounds. ``embed``: embeds excerpts of ``texts``. ``embed_questions``:
    embeds questions.
    """
    if not questions:
        return [], []
    asked = embed_questions([question.text for question in questions])
    pairs = [(at, excerpt) for at, question in enumerate(questions) for excerpt in question.excerpts]
    excerpts = embed([texts[e.document][e.start : e.end] for _, e in pairs])
    about = [question.excerpts[0].document for question in questions]
    reasons = dict.fromkeys(
        misfits(asked, excerpts, [at for at, _ in pairs], about), "an excerpt fits the question badly"
    )
    left = [at for at in range(len(questions)) if at not in reasons]
    reasons |= {left[at]: "the question nearly repeats another" for at in duplicates(asked[left])}
    refused = [RefusedQuestion(0, questions[at].text, reasons[at]) for at in sorted(reasons)]
    return [question for at, question in enumerate(questions) if at not in reasons], refused


def messages(shown: Sequence[str], earlier: Sequence[str]) -> Messages:
    """Build the request to a language model for a question about a passage.

    ``shown``: sentences of the passage. ``earlier``: questions about the same document, not to be repeated.
    """
    listed = "".join(f"- {question}\n" for question in earlier[-_EARLIER:])
    known = f"Questions that were asked before; ask for something else:\n{listed}\n" if listed else ""
    numbered = "\n".join(f"[{number}] {' '.join(each.split())}" for number, each in enumerate(shown, 1))
    return ("system", _TASK), ("user", f"{known}The passage:\n{numbered}")


def read_question(
    answer: str, at: int, shown: Sequence[Span], texts: Sequence[str], earlier: Sequence[str]
) -> EvalQuestion:
    """Parse a language model's answer into a question and the excerpts that answer it.

    ``at``: number of the document. ``shown``: spans of the passage's sentences in the document. ``earlier``:
    questions about the same document. Raises ValueError with a reason, which the next request to the model
    quotes.
    """
    fields = json_object(answer)
    text, named = fields.get("question"), fields.get("sentences")
    if not (isinstance(text, str) and text.strip() and len(text) <= _LONGEST):
        raise ValueError(f"`question` must be a text of 1 to {_LONGEST} characters")
    text = " ".join(text.split())
    if text in earlier:
        raise ValueError("the question repeats an earlier one")
    if not (isinstance(named, list) and named and all(type(each) is int for each in named)):
        raise ValueError("`sentences` must be a list of the numbers of sentences")
    numbers = sorted(set(named))
    if len(numbers) > _MOST:
        raise ValueError(f"`sentences` must name at most {_MOST} sentences")
    if not 1 <= numbers[0] <= numbers[-1] <= len(shown):
        raise ValueError(f"`sentences` must be from 1 to {len(shown)}, because the passage has no others")
    first = [number for number in numbers if number - 1 not in numbers]
    last = [number for number in numbers if number + 1 not in numbers]
    excerpts = [Excerpt(at, shown[a - 1][0], shown[b - 1][1]) for a, b in zip(first, last, strict=True)]
    for number, each in zip(first, excerpts, strict=True):
        if sum(document.count(texts[at][each.start : each.end]) for document in texts) > 1:
            raise ValueError(
                f"the text of sentence {number} occurs more than once in "
                "the documents: name its neighbour, too"
            )
    return EvalQuestion(text, tuple(excerpts), "model")


def _about(texts: Sequence[str], at: int, spans: Sequence[Span], requests: QuestionRequests) -> Sifted:
    """Request questions about the given passages of one document, one after another.

    ``at``: number of the document. ``spans``: the passages. Return the questions and the refusals.
    """
    questions, refused, earlier = list[EvalQuestion](), list[RefusedQuestion](), list[str]()
    for number, span in enumerate(spans, 1):
        reasons = list[str]()
        shown = [(a, b) for a, b in sentences(texts[at], span) if b - a <= _LONGEST]
        question = ask_until_valid(
            requests.ask,
            messages([texts[at][a:b] for a, b in shown], earlier),
            partial(read_question, at=at, shown=shown, texts=texts, earlier=earlier[:]),
            invalid=reasons.append,
        )
        requests.after_each()
        if question is not None:
            questions.append(question)
            earlier.append(question.text)
        elif reasons:
            refused.append(RefusedQuestion(0, "", f"no valid answer of the model: {reasons[-1]}"))
        else:  # a dry run, in which each request has one more question, too
            earlier.append(f"question {number} about this document")
    return questions, refused


_FOREIGN = 0.9  # quantile
_ALIKE = 0.9  # of the way from the median to 1
_FEWEST = 20  # pairs from which a quantile is taken


def misfits(questions: Vectors, excerpts: Vectors, owners: Sequence[int], about: Sequence[int]) -> set[int]:
    """Return the numbers of the questions that an excerpt of their own answers badly.

    An excerpt is bad if its cosine with the question is below a bound. The bound is a quantile of the cosines
    of questions with excerpts of other questions about the same document. ``owners``: number of each
    excerpt's question. ``about``: number of each question's document.
    """
    if not owners:
        return set()
    similar = (questions @ excerpts.T).astype(np.float64)
    own = np.asarray(owners)
    documents = np.asarray(about)
    foreign = (documents[:, None] == documents[own][None, :]) & (np.arange(len(questions))[:, None] != own)
    pairs = similar[foreign]
    if len(pairs) < _FEWEST:
        return set()
    bound = float(np.quantile(pairs, _FOREIGN))
    return {question for at, question in enumerate(owners) if similar[question, at] < bound}


def duplicates(questions: Vectors) -> dict[int, int]:
    """Find questions that nearly repeat an earlier question.

    Return the number of the earlier question, by the number of the question that repeats it.
    """
    similar: Floats = (questions @ questions.T).astype(np.float64)
    pairs = similar[np.triu_indices(len(questions), 1)]
    median = float(np.median(pairs)) if len(pairs) >= _FEWEST else 0.0
    bound = median + _ALIKE * (1 - median)
    originals: dict[int, int] = {}
    for at in range(1, len(questions)):
        earlier = [n for n in range(at) if n not in originals and similar[n, at] > bound]
        if earlier:
            originals[at] = max(earlier, key=lambda n: similar[n, at])
    return originals


LONGEST = 4000  # characters
_SHORTEST = 200


def passages(texts: Sequence[str], count: int) -> Mapping[int, list[Span]]:
    """Choose ``count`` passages of the documents, and return them by the number of their document.

    Long documents get more passages. Documents under 200 characters get none.
    """
    weights = {at: max(1.0, len(text) / LONGEST) for at, text in enumerate(texts) if len(text) >= _SHORTEST}
    total = sum(weights.values())
    turns = sorted(
        ((n + 0.5) / weight, at, n)
        for at, weight in weights.items()
        for n in range(int(count * weight / total) + 2)  # no document has more
    )
    spans: defaultdict[int, list[Span]] = defaultdict(list)
    for _, at, n in turns[:count]:
        spans[at].append(_passage(texts[at], n))
    return dict(sorted(spans.items()))


def _passage(text: str, n: int) -> Span:
    """Return the span of the n-th passage of a text. Its ends are moved to whitespace if some is near."""
    if len(text) <= LONGEST:
        return 0, len(text)
    start = int(text_digest(f"{n} {text}"), 16) % (len(text) - LONGEST + 1)
    end = start + LONGEST
    if start and not text[start - 1].isspace():
        start = next((at + 1 for at in range(start, start + LONGEST // 10) if text[at].isspace()), start)
    if end < len(text):
        end = next((at for at in range(end, end - LONGEST // 10, -1) if text[at].isspace()), end)
    return start, end
