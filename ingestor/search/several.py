"""Fuses the answers of several collections by the rank of their hits. Pure.

Scores of different models cannot be compared. So the first hits of all collections come first, then the
second ones. Scores decide among hits of one rank. Near-duplicates in several collections are one hit, if the
question wants distinct hits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ingestor.model import RecordId
from ingestor.search.fusion import Distinct, document_of
from ingestor.search.passages import Count
from ingestor.search.values import Answer, Copy, Found, Passage, Question

ALL = "*"


def names_of(wanted: str | Sequence[str], known: Iterable[str]) -> list[str] | None:
    """Return the collections to search, or None if ``wanted`` is the plain name of one.

    ``wanted``: a name, several names, or "*" for all. ``known``: the names of all collections.
    """
    if wanted == ALL or (not isinstance(wanted, str) and ALL in wanted):
        return sorted(known)
    return None if isinstance(wanted, str) else list(dict.fromkeys(wanted))


def label(answer: Answer, collection: str) -> Answer:
    """Return the answer with the collection's name in every hit, passage and near-duplicate."""

    def own(copies: Sequence[Copy]) -> tuple[Copy, ...]:
        return tuple(replace(copy, collection=collection) for copy in copies)

    return replace(
        answer,
        hits=tuple(replace(hit, collection=collection, also_in=own(hit.also_in)) for hit in answer.hits),
        passages=tuple(
            replace(passage, collection=collection, also_in=own(passage.also_in))
            for passage in answer.passages
        ),
    )


def fuse_answers(
    question: Question,
    answers: Mapping[str, Answer],
    refused: Mapping[str, str],
    count: Count,
    seconds: float,
) -> Answer:
    """Fuse the answers of collections. ``refused``: reasons of the collections without an answer."""
    known = {name: label(answer, name) for name, answer in answers.items()}
    ranked = [
        (rank, -hit.score, name, hit)
        for name, answer in known.items()
        for rank, hit in enumerate(answer.hits)
    ]
    hits = tuple(hit for *_, hit in sorted(ranked, key=lambda one: one[:3]))
    merged = Answer(hits, tuple(chain.from_iterable(each.passages for each in known.values())), "hybrid", 0.0)
    if question.is_distinct():
        merged = _join_copies(merged)
    hits = merged.hits[: question.n] if question.budget_tokens is None else merged.hits
    passages = _in_order(merged.passages, hits)
    needed = None
    if question.budget_tokens is not None:
        passages, needed = _within(passages, question.budget_tokens, count)
        shown = {(one.collection, id_) for one in passages for id_ in one.ids}
        hits = tuple(hit for hit in hits if (hit.collection, hit.id) in shown)
        least = [each.needed_tokens for each in answers.values() if each.needed_tokens is not None]
        needed = None if passages else min([*least, *([] if needed is None else [needed])], default=None)
    fallbacks = {name: answer.fallback for name, answer in answers.items() if answer.fallback} | dict(refused)
    reasons = "; ".join(f"{name}: {reason}" for name, reason in fallbacks.items())
    modes = {answer.mode for answer in answers.values()}
    mode = question.mode if question.mode in modes else min(modes)
    return Answer(hits, tuple(passages), mode, seconds, reasons or None, needed)


def _join_copies(answer: Answer) -> Answer:
    """Leave out near-duplicates of better hits. These hits and their passages name them in ``also_in``."""
    texts, copies = Distinct(), dict[str, tuple[Copy, ...]]()
    for hit in answer.hits:
        key = f"{hit.collection}/{hit.id}"
        if (first := texts.add(RecordId(key), hit.document)) == key:
            copies[key] = ()
        else:
            copy = Copy(hit.id, document_of(hit.id), str(hit.metadata.get("source") or ""), hit.collection)
            copies[first] += (copy, *hit.also_in)

    def more(collection: str, ids: Sequence[RecordId]) -> tuple[Copy, ...]:
        return tuple(chain.from_iterable(copies.get(f"{collection}/{id_}", ()) for id_ in ids))

    return replace(
        answer,
        hits=tuple(
            replace(hit, also_in=hit.also_in + copies[key])
            for hit in answer.hits
            if (key := f"{hit.collection}/{hit.id}") in copies
        ),
        passages=tuple(
            replace(each, also_in=each.also_in + more(each.collection, each.ids)) for each in answer.passages
        ),
    )


def _in_order(passages: Sequence[Passage], hits: Sequence[Found]) -> list[Passage]:
    """Return the passages that contain a hit, ordered by their best hit."""
    rank = {(hit.collection, hit.id): at for at, hit in enumerate(hits)}
    best = list[tuple[int, Passage]]()
    for passage in passages:
        places = (rank.get((passage.collection, id_)) for id_ in passage.ids)
        best += [(min(ranks), passage)] if (ranks := [at for at in places if at is not None]) else []
    return [passage for _, passage in sorted(best, key=lambda each: each[0])]


def _within(passages: Sequence[Passage], budget: int, count: Count) -> tuple[list[Passage], int | None]:
    """Return the passages that fit the budget, best first, and the budget that the best passage needs."""
    costs = [tokens + 1 for tokens in count([one.text for one in passages])] if passages else []
    kept, left = list[Passage](), budget
    for passage, tokens in zip(passages, costs, strict=True):
        if tokens <= left:
            kept.append(passage)
            left -= tokens
    return kept, costs[0] if costs else None
