"""Questions that a language model writes, each about a passage that it is shown.

As in Chroma's technical report [Smith & Troynikov 2024]: the model sees a passage and the latest questions
about the same document. It answers with a question on one subject and the excerpts that answer the question,
word for word. An excerpt is looked for in the passage exactly, then without regard to spaces, punctuation and
case, and must stand in the documents once. An answer that breaks a rule is asked for again, with the reason.

The questions about one document are asked for one after another, so that they differ; documents at the same
time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ingestor.evaluate.questions.csv_file import RefusedQuestion, Searchable
from ingestor.evaluate.questions.filters import duplicates, misfits
from ingestor.evaluate.scores import EvalQuestion, Excerpt
from ingestor.llm.at_once import in_parallel
from ingestor.llm.client import Ask, Messages
from ingestor.llm.valid import ask_until_valid, json_object
from ingestor.model import Vectors
from ingestor.ports import Stop
from ingestor.text.spans import Span

_EARLIER = 50  # questions that the model is told
_MOST = 5  # excerpts
_LONGEST = 2000  # characters of a question or an excerpt
_TASK = """\
You write questions that test a search index. You see one passage of a document. Write one question that the \
passage answers, as a person would ask it who does not have the text: about one subject, without joining two \
questions by "and", in the language of the passage, and without words such as "the passage" or "the text".
Then quote from the passage what is needed to answer it: one to five excerpts, each copied word for word, \
each of one sentence or a few.
Answer with a JSON object and nothing else:
{"question": "...", "excerpts": ["...", "..."]}"""

Wanted = Mapping[int, Sequence[Span]]  # passages, by the number of their document


@dataclass(frozen=True, slots=True)
class Manner:
    """Way to ask for questions.

    ``threads``: documents at the same time; ``stop``: ends waits. ``noted``: called after each passage.
    """

    ask: Ask
    threads: int
    stop: Callable[[], None]
    noted: Callable[[], None]


def write_questions(
    texts: Sequence[str], wanted: Wanted, manner: Manner
) -> tuple[list[EvalQuestion], list[RefusedQuestion]]:
    """The questions, and why there is none about some passages. Raises what ``manner.ask`` raises."""
    results = in_parallel(
        lambda at: _about(texts, at, wanted[at], manner), list(wanted), manner.threads, Stop(), manner.stop
    )
    questions = [each for one, _ in results for each in one]
    refused = [each for _, other in results for each in other]
    return questions, refused


def filter_questions(
    questions: Sequence[EvalQuestion], texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors],
    embed_questions: Callable[[Sequence[str]], Vectors],
) -> tuple[list[EvalQuestion], list[RefusedQuestion]]:  # fmt: skip
    """Refuse questions whose excerpts fit badly and questions that nearly repeat another; see ``filters``.

    Return the kept questions and the refused ones.
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


def messages(passage: str, earlier: Sequence[str]) -> Messages:
    listed = "".join(f"- {question}\n" for question in earlier[-_EARLIER:])
    known = f"Questions that were asked before; ask for something else:\n{listed}\n" if listed else ""
    return ("system", _TASK), ("user", f"{known}The passage:\n{passage}")


def read(answer: str, at: int, span: Span, texts: Sequence[str], earlier: Sequence[str]) -> EvalQuestion:
    """Parse the model's answer into a question with located excerpts.

    ``at``: number of the document; ``span``: place of the passage in its text.
    Raises ValueError with a reason that is sent to the model.
    """
    fields = json_object(answer)
    text, quoted = fields.get("question"), fields.get("excerpts")
    if not (isinstance(text, str) and text.strip() and len(text) <= _LONGEST):
        raise ValueError("question must be a text")
    text = " ".join(text.split())
    if text in earlier:
        raise ValueError("the question repeats an earlier one")
    if not (isinstance(quoted, list) and quoted and all(isinstance(each, str) for each in quoted)):
        raise ValueError("excerpts must be a list of texts")
    if len(quoted) > _MOST:
        raise ValueError(f"there are more than {_MOST} excerpts")
    searched = Searchable(texts[at][slice(*span)])
    places = [
        _place(number, quotation, searched, span[0], texts) for number, quotation in enumerate(quoted, 1)
    ]
    return EvalQuestion(text, tuple(Excerpt(at, *place) for place in dict.fromkeys(places)), "model")


def _about(
    texts: Sequence[str], at: int, spans: Sequence[Span], manner: Manner
) -> tuple[list[EvalQuestion], list[RefusedQuestion]]:
    questions, refused, earlier = list[EvalQuestion](), list[RefusedQuestion](), list[str]()
    for number, span in enumerate(spans, 1):
        reasons = list[str]()
        question = ask_until_valid(
            manner.ask,
            messages(texts[at][slice(*span)], earlier),
            partial(read, at=at, span=span, texts=texts, earlier=earlier[:]),
            invalid=reasons.append,
        )
        manner.noted()
        if question is not None:
            questions.append(question)
            earlier.append(question.text)
        elif reasons:
            refused.append(RefusedQuestion(0, "", f"no valid answer of the model: {reasons[-1]}"))
        else:  # a dry run, in which the next request has one question more, too
            earlier.append(f"question {number} about this document")
    return questions, refused


def _place(number: int, quotation: str, passage: Searchable, start: int, texts: Sequence[str]) -> Span:
    place = passage.find(quotation) if len(quotation) <= _LONGEST else None
    if place is None:
        raise ValueError(f"excerpt {number} is not in the passage word for word")
    quoted = passage.text[slice(*place)]
    if sum(text.count(quoted) for text in texts) > 1:
        raise ValueError(f"excerpt {number} stands in the documents more than once: quote more")
    return start + place[0], start + place[1]
