"""Evaluates strategies: cuts sampled documents by each strategy, and searches the chunks for each question.

An evaluation writes neither to a collection nor to the journal, so it may run beside a daemon. Vectors are
cached, so an interrupted run resumes. ``adopt`` writes the recommended strategies into the config file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import environ
from pathlib import Path
from shutil import copymode

import numpy as np

from ingestor.config.file import check_text
from ingestor.config.models import Choice, Config, ConfigError
from ingestor.config.rewrite import NotRewritable, places, with_chunking
from ingestor.evaluate import asking, comparison, strategies, workplace
from ingestor.evaluate.asking import AskingEstimate, AskingUsage
from ingestor.evaluate.comparison import BetterForSource, Comparison, Verdict
from ingestor.evaluate.cutting import ModelUse, SampleCut, cut
from ingestor.evaluate.judging import Judged, describe_judgements, judge
from ingestor.evaluate.made_questions import make_questions
from ingestor.evaluate.question_file import RefusedQuestion, locate, quotations, to_rows, write_rows
from ingestor.evaluate.ranking import StrategyOutcome, score_cuts
from ingestor.evaluate.sample import Progress, Sample
from ingestor.evaluate.scores import EvalQuestion
from ingestor.evaluate.strategies import Strategy, is_same_choice
from ingestor.evaluate.workplace import EvaluationRequest, Workplace
from ingestor.llm.options import Endpoint
from ingestor.model import SourceName
from ingestor.pipeline.language import identify
from ingestor.ports import BadDocument, NeedsHuman
from ingestor.queries.access import BadRequest


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Result of an evaluation.

    ``sample``, ``questions``: documents and questions as parsed with the config's settings. ``quoted``: texts
    of each question's excerpts. ``outcomes``: the result of each strategy. ``comparisons``: the comparison of
    the strategies' recall at each budget in tokens. ``better_for``: sources for which another strategy is
    better than the recommended one. ``text``: the recommendation as a paragraph.
    """

    request: EvaluationRequest
    sample: Sample
    questions: Sequence[EvalQuestion]
    quoted: Sequence[Sequence[str]]
    refused: Sequence[RefusedQuestion]
    outcomes: Sequence[StrategyOutcome]
    comparisons: dict[int, Comparison]
    verdict: Verdict
    better_for: Sequence[BetterForSource]
    text: str
    asked: AskingUsage | None = None
    judged: Judged | None = None

    @property
    def changes(self) -> bool:
        """Return whether the recommendation differs from the config in more than the mode of search."""
        pick = self.outcomes[self.verdict.pick].cut.strategy
        known = [each.cut.strategy for each in self.outcomes if each.cut.strategy.configured]
        return bool(pick.extras) or not any(pick.cuts_as(each) for each in known)


def evaluate(
    config: Config, request: EvaluationRequest, progress: Progress, tell: Callable[[AskingEstimate], None]
) -> Evaluation:
    """Compare strategies on a sample of a collection, and return the result.

    ``tell``: called with the estimate before the first request to a language model. Raises BadRequest for an
    invalid request, and the errors of sources, embedder and language model.
    """
    if request.models and request.judge:
        raise BadRequest("--models and --judge exclude each other: choose one")
    endpoint = _endpoint(config, request)
    outcomes, use = list[StrategyOutcome](), ModelUse()
    compared: list[tuple[str | None, Choice]] = [*request.models.items()]
    for number, (model, embedding) in enumerate(compared or [(None, config.embedding)]):
        with workplace.open_workplace(replace(config, embedding=embedding), request, progress) as place:
            if number == 0:  # every model gets the same documents and questions
                estimate = asking.estimate_requests(request, place, endpoint)
                if estimate is not None:
                    tell(estimate)
                readings = _readings(request, place)
                samples = list(readings.values())
                questions, refused = _questions(request, place, endpoint, samples)
            chosen = request.strategies or (() if model is None else (place.strategy,))
            cuts = list(_cuts(replace(request, strategies=chosen), place, readings))
            if not is_same_choice(embedding, config.embedding):
                cuts = [replace(each, strategy=replace(each.strategy, configured=False)) for each in cuts]
            made = score_cuts(place, cuts, dict(zip(readings, questions, strict=True)), request.budgets)
            outcomes += [replace(each, model=model, embedding=embedding) for each in made]
            texts = quotations(questions, samples)
            evaluation = _conclude(request, samples, texts, refused, questions[0], outcomes)
            if endpoint is not None and request.judge:
                evaluation = _with_judgements(evaluation, place, endpoint)
            sent = place.answers
            use += ModelUse(sent.calls, sent.prompt_tokens, sent.completion_tokens, sent.cost)
    return replace(evaluation, asked=None if estimate is None else AskingUsage(estimate, use))


def estimate_requests(config: Config, request: EvaluationRequest, progress: Progress) -> AskingEstimate:
    """Estimate the requests to language models that ``evaluate`` would send.

    Raises BadRequest if the evaluation needs no language model.
    """
    endpoint = _endpoint(config, request)
    with workplace.open_workplace(config, request, progress) as place:
        estimate = asking.estimate_requests(request, place, endpoint)
    if estimate is None:
        raise BadRequest("--estimate needs --ask-model, --judge, or a strategy that calls a language model")
    return estimate


def _endpoint(config: Config, request: EvaluationRequest) -> Endpoint | None:
    """Return the language model of the config, or None if the request does not need it.

    Raises BadRequest if the config has no language model, or if options of the request exclude each other.
    """
    if not (request.ask_model or request.judge):
        return None
    if request.ask_model and request.questions is not None:
        raise BadRequest("--questions and --ask-model exclude each other: choose one")
    if config.language_model is None:
        raise BadRequest("the config names no language model: set language_model (docs/config.md)")
    return config.language_model


def _with_judgements(evaluation: Evaluation, place: Workplace, endpoint: Endpoint) -> Evaluation:
    """Have the language model judge answers. Return the evaluation with the judgements added."""
    request = evaluation.request
    ranked = [(each.cut, each.scores.ranked) for each in evaluation.outcomes]
    references = ["\n\n".join(each) for each in evaluation.quoted]
    questions, budget = evaluation.questions, request.budgets[0]
    judged = judge(place, endpoint, questions, references, ranked, request.judge, budget)
    names = [each.name for each in evaluation.outcomes]
    sentence = describe_judgements(judged, names, evaluation.verdict.pick, evaluation.verdict.than)
    return replace(evaluation, judged=judged, text=f"{evaluation.text} {sentence}")


def _readings(request: EvaluationRequest, place: Workplace) -> dict[tuple[str, ...], Sample]:
    """Parse the sampled documents with each set of parser settings that a strategy uses.

    Return the samples by parser settings. The empty key stands for the settings of the config, and comes
    first.
    """
    samples: dict[tuple[str, ...], Sample] = {(): place.sample}
    for each in request.strategies:
        if each.parser_settings not in samples:
            samples[each.parser_settings] = place.read_by(each.beside)
    return samples


def _questions(
    request: EvaluationRequest, place: Workplace, endpoint: Endpoint | None, samples: Sequence[Sample]
) -> tuple[list[list[EvalQuestion]], list[RefusedQuestion]]:
    """Make, request or read the questions, as the request wants, and locate their excerpts in each sample.

    Return the questions for each sample, and the refused questions. Raises BadRequest if no question is
    usable.
    """
    refused: list[RefusedQuestion] = []
    if request.questions is not None:
        questions, refused = workplace.read_questions(request.questions, samples)
    else:
        if request.ask_model and endpoint is not None:
            own, refused = asking.ask_questions(place, endpoint, request.make)
        else:
            documents = [identify(each.document) for each in place.sample.documents]
            own = make_questions(documents, request.make, request.seed)
        questions = [own]
        if len(samples) > 1:  # only questions that fit all samples
            rows = to_rows(own, quotations([own], samples[:1]), samples[0].names)
            questions, left = locate(rows, samples, everywhere=True)
            refused = [*refused, *left]
    if not questions[0]:
        who = "the language model wrote" if request.ask_model else "there is"
        none = "no questions can be generated: no sentence of 8 to 80 words can be asked for; use --questions"
        raise BadRequest(f"{who} no question that can be used: {refused[0].reason}" if refused else none)
    if request.keep is not None:
        write_rows(request.keep, to_rows(questions[0], quotations(questions, samples), place.sample.names))
    return questions, refused


def _cuts(
    request: EvaluationRequest, place: Workplace, readings: Mapping[tuple[str, ...], Sample]
) -> Iterator[SampleCut]:
    """Yield the chunks of each strategy to compare, once for each mode of search.

    If the request names no strategies, strategies with chunks of similar sizes are compared with the
    configured one.
    """
    chosen, cuts = list(request.strategies), list[SampleCut]()
    if not chosen:
        base = place.strategy
        first = _cut(base, place.sample, place, "")
        cuts.append(first)
        documents = [each.document for each in place.sample.documents]
        chosen = [base, *strategies.worth_comparing(base, first.mean_tokens, documents)]
    for number, strategy in enumerate(chosen, start=1):
        known = next((each for each in cuts if strategy.cuts_as(each.strategy)), None)
        which = f" ({number} of {len(chosen)})"
        made = known or _cut(strategy, readings[strategy.parser_settings], place, which)
        cuts.append(made)
        for each in strategy.with_modes(request.modes):
            yield replace(made, strategy=each)


def _cut(strategy: Strategy, sample: Sample, place: Workplace, which: str) -> SampleCut:
    """Cut the sample by a strategy.

    ``which``: the strategy's number, such as " (2 of 5)", for the progress message. Raises BadRequest if the
    strategy cannot cut these documents.
    """

    def progress(key: str) -> None:
        tokens = place.embedding.counts().tokens
        embedded = f", {tokens:,} tokens embedded" if tokens else ""
        place.progress(f"cutting by {strategy.name}{which}: {key}{embedded}")

    try:
        made = cut(strategy, sample, place.tools, place.parts.tokens, place.answers, progress)
    except BadDocument as error:
        raise BadRequest(f"{strategy.name}: {error}") from error
    if not made.places:
        raise BadRequest(f"strategy {strategy.name} makes no chunks of these documents: compare another one")
    return made


def _conclude(
    request: EvaluationRequest,
    samples: Sequence[Sample],
    texts: Sequence[Sequence[str]],
    refused: Sequence[RefusedQuestion],
    questions: Sequence[EvalQuestion],
    outcomes: Sequence[StrategyOutcome],
) -> Evaluation:
    """Compare the outcomes of the strategies, choose the one to recommend, and return the whole evaluation.

    ``texts``: texts of each question's excerpts.
    """
    sample = samples[0]
    about = workplace.same_documents(questions)
    recalls = {budget: np.array([each.scores.at[budget] for each in outcomes]) for budget in request.budgets}
    comparisons = {budget: comparison.compare(recall, about) for budget, recall in recalls.items()}
    cuts, budget = [each.cut for each in outcomes], request.budgets[0]
    current = next((at for at, each in enumerate(cuts) if each.strategy.configured), None)
    decision = comparison.verdict(comparisons[budget], current)
    by_source: dict[str, Comparison] = {}  # on the questions about the documents of each source
    numbers, sources = np.array(about), np.array([sample.documents[at].source for at in about])
    names = sorted(set(sources.tolist()))
    if len(names) > 1 and len(outcomes) > 1:
        for name in names:
            own = sources == name
            by_source[name] = comparison.compare(recalls[budget][:, own], numbers[own].tolist(), len(names))
    exceptions = comparison.better_for_sources(by_source, decision.pick)
    made = [question.text for question in questions if question.origin == "made"]
    facts = comparison.Facts(
        names=[each.name for each in outcomes],
        tokens=[each.embedded_tokens for each in cuts],
        read=[each.asked.prompt_tokens for each in cuts],
        current=current,
        questions=len(questions),
        made=len(made),
        written=sum(question.origin == "model" for question in questions),
        budget=budget,
        search=outcomes[decision.pick].mode,
        keywords=sum(not text.endswith(("?", "？", "؟")) for text in made),
    )
    text = comparison.describe_verdict(decision, comparisons[budget], facts, exceptions)
    return Evaluation(
        request, sample, questions, texts, refused, outcomes, comparisons, decision, exceptions, text
    )


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
    own = {s.name: s.chunking for s in config.sources if s.collection == evaluation.request.collection}
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
        blocks = dict[str, str]()  # YAML by place; a strategy of several sources is written once if possible
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
