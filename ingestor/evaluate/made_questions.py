"""Questions made of the documents themselves, without a model. Pure, and the same every time.

One or two sentences are drawn, or the term of a definition. In English a template asks for them: by the term,
by what a figure counts, or by phrases of the sentences and the heading above. A question has four phrases at
most, the longest first. In other languages the question is half of the words. The excerpt to find is these
sentences with their neighbours, or the definition.

Recall *at an equal budget of tokens* by such questions orders strategies much as real questions do
(docs/evaluate.md has the correlations). Without the neighbours the order was wrong: chunks of 30 tokens, each
about one sentence, scored best. The height of recall means nothing.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

import numpy as np

from ingestor.core.fingerprint import text_digest
from ingestor.evaluate.scores import EvalQuestion, Excerpt
from ingestor.model import Document
from ingestor.text.outline import Outline, outline
from ingestor.text.sentences import sentences
from ingestor.text.spans import Span, inside

_WORD = re.compile(r"\w[\w'’-]*")
_FEWEST, _MOST = 8, 80  # words of an excerpt
_KEPT = 0.5
_SHORTEST = 3  # words of a question
_GAP = 2  # characters between two sentences of one excerpt
_CHARACTERS = 60  # of the longest term
_PHRASE = 4  # words
_PHRASES = 4  # of a question
_FIGURE = re.compile(r"(?<![\w.,])\d[\d.,]*\s+(?P<counted>[a-z]{3,}s)\b")
_LIGHT = frozenset(  # words of English that no phrase holds
    """
    a about above after again all also although always am among an and another any are as at be because
    been before being below between both but by can could did do does doing down during each either else
    even ever every few first for from further get given had has have having he her here hers him his
    how however i if in instead into is it its itself just last later least less let like made make
    makes many may me might more most much must my neither never no nor not now of off often on once one
    only or other others our out over own per rather same second she should since so some such than that
    the their them then there these they this those though three through thus to too two under until up
    upon us use used uses using very was we well were what when where whether which while who whom whose
    why will with within without would yet you your
    """.split()  # noqa: SIM905
)
_SKIPPED = frozenset({"heading", "code", "table", "front_matter", "rule", "html", "comment", "label"})


def make_questions(documents: Sequence[Document], count: int, seed: int = 0) -> list[EvalQuestion]:
    """Make at most ``count`` questions, in proportion to the prose of each document.

    A document without a language counts as English. Another ``seed`` gives other questions.
    """
    whole = "\n".join(document.text for document in documents)
    salt = f"{seed} " if seed else ""
    candidates = sorted(
        (text_digest(f"{salt}{number} {document.text[start:end]}"), number, (start, end), excerpt)
        for number, document in enumerate(documents)
        for (start, end), excerpt in (*_draw(document), *_definitions(document))
    )
    outlines = [outline(document) for document in documents]
    asked = (
        _question(digest, documents[number], outlines[number], span, Excerpt(number, *excerpt))
        for digest, number, span, excerpt in candidates
        if whole.count(documents[number].text[slice(*span)]) == 1
    )
    distinct = {question.text: question for question in filter(None, asked)}
    return list(islice(distinct.values(), count))


def _definitions(document: Document) -> Iterator[tuple[Span, Span]]:
    """Yield the terms of definitions, and each with the block after it."""
    for block, body in pairwise(document.blocks):
        term = document.text[block.start : block.end].strip()
        if block.kind == "definition" != body.kind and 0 < len(term) <= _CHARACTERS and "\n" not in term:
            yield (block.start, block.end), (block.start, body.end)


def _draw(document: Document) -> Iterator[tuple[Span, Span]]:
    """Sentences of prose, none twice, by turns one alone and two together; and each with those around it."""
    other = [(block.start, block.end) for block in document.blocks if block.kind in _SKIPPED]
    prose = [span for span in sentences(document.text, language=document.language) if not inside(other, span)]
    at, pair = 0, False
    while at < len(prose):
        last = at + 1 if pair and _together(prose, at) else at
        start, end = prose[at][0], prose[last][1]
        if _FEWEST <= len(_WORD.findall(document.text[start:end])) <= _MOST:
            yield (start, end), _widen(prose, at, last)
        at, pair = last + 1, not pair


def _widen(spans: Sequence[Span], first: int, last: int) -> Span:
    first -= first > 0 and _together(spans, first - 1)
    last += _together(spans, last)
    return spans[first][0], spans[last][1]


def _together(spans: Sequence[Span], at: int) -> bool:
    """Whether a sentence and the next one follow each other."""
    return at + 1 < len(spans) and spans[at + 1][0] - spans[at][1] <= _GAP


def _question(
    digest: str, document: Document, outlined: Outline, span: Span, excerpt: Excerpt
) -> EvalQuestion | None:
    text = document.text[slice(*span)]
    random = np.random.default_rng(int(digest, 16))
    if span[0] == excerpt.start and any(
        block.kind == "definition" and (block.start, block.end) == span for block in outlined.between(*span)
    ):
        term = " ".join(text.split()).rstrip(":")
        asked = f"What does {term} do?" if term.startswith("-") else f"What is {term}?"
    elif (document.language or "en").partition("-")[0] == "en":
        section = outlined.sections[outlined.section(span[0])]
        asked = _ask(text, section.title or "", random)
    else:
        words = _WORD.findall(text)
        draws = random.random(len(words))
        kept = [word for word, draw in zip(words, draws, strict=True) if draw < _KEPT]
        asked = " ".join(kept) if len(kept) >= _SHORTEST else ""
    return EvalQuestion(asked, (excerpt,), origin="made") if asked else None


def _ask(text: str, heading: str, random: np.random.Generator) -> str:
    """Ask for what sentences say by a template; "" if they have too few phrases."""
    figure = _FIGURE.search(text)
    phrases = [each for each in _phrases(text) if not (figure and _gives_away(each, figure["counted"]))]
    draws = random.random(len(phrases))
    order = sorted(range(len(phrases)), key=lambda at: (-len(phrases[at].split()), draws[at]))
    chosen = [phrases[at] for at in sorted(order[:_PHRASES])]
    if sum(len(each.split()) for each in chosen) < _SHORTEST:
        return ""
    listed = chosen[0] if len(chosen) == 1 else f"{', '.join(chosen[:-1])} and {chosen[-1]}"
    if figure:
        return f"How many {figure['counted']} are there, with regard to {listed}?"
    if heading and len(heading) <= _CHARACTERS and random.random() < _KEPT:
        return f"What does “{heading}” say about {listed}?"
    opening = ("What is said about", "What is known about", "What should I know about")
    return f"{opening[int(random.integers(len(opening)))]} {listed}?"


def _gives_away(phrase: str, counted: str) -> bool:
    """Return whether a phrase has the number that is asked for."""
    return counted in phrase.split() and any(map(str.isdigit, phrase))


def _phrases(text: str) -> list[str]:
    """Return runs of words between punctuation and light words, of four words at most, each once."""
    phrases = list[str]()
    for part in re.split(r"[.,;:!?()\[\]{}<>|*_`\"“”\n]", text):
        run = list[str]()
        for word in (*_WORD.findall(part), ""):
            light = not word or word.lower() in _LIGHT
            if run and (light or len(run) == _PHRASE):
                phrases.append(" ".join(run))
                run = []
            if not light:
                run.append(word)
    return list(dict.fromkeys(phrases))
