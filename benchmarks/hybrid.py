"""Recall among the best five hits by vectors, by words, and by several fusions of both.

``python -m benchmarks hybrid [WHICH]``. Three corpora of Chroma's report as one collection,
all-MiniLM-L6-v2, exact search, the 50 best of either list as candidates. ``rrf``: reciprocal ranks.
``convex w``: w of the cosine, scaled to the range from 0 to 1 over the candidates, and 1 - w of BM25: divided
by the best hit's (*best*), or by the most that the words of the question can give (*most*, as search does).

Questions: the *report*'s. Paraphrases of them are not at hand, so the words that a question shares with its
excerpts are taken from it, unless 60 chunks have them: each with probability one half (*reworded*), or all
(*foreign*). Of random sentences: half of the words (*half*), the six rarest (*rare*), all less the rarest
third (*common*), one name or number (*names*). In brackets: the 95 % bootstrap interval of the difference
from *dense*, paired over the questions.
"""

import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.retrieval import Question, Run, Strategy, load, model, run, score
from ingestor.lexical.file import LexicalFile, open_for_reading
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import rank_by_words
from ingestor.model import Document, Record, RecordId
from ingestor.search import fusion

STRATEGIES = [Strategy("recursive", {"size": 200}), Strategy("changepoint", {"target": 125})]
NEAREST, DEPTH, SENTENCES = 5, 50, 70
WORD = re.compile(r"\w+")
SENTENCE = re.compile(r"[^.!?\n]{40,400}[.!?]")
NAME = re.compile(r"\b(?:[A-Z]\w+(?: [A-Z]\w+)+|\w*\d[\w.,]*\d|\w+_\w+)\b")

Order = list[tuple[RecordId, float]]
Fused = list[RecordId]


def main(which: int = -1) -> None:
    documents, questions = load()
    for strategy in STRATEGIES if which < 0 else [STRATEGIES[which]]:
        made = run(strategy, documents, 1000.0)
        texts = [" ".join(documents[p.corpus].text[a:b] for a, b in p.spans) for p in made.places]
        print(f"\n{strategy.name}: {len(texts)} chunks", flush=True)
        show(measured(made, texts, question_sets(documents, questions, texts)))


def words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]


def question_sets(
    documents: Mapping[str, Document], questions: Sequence[Question], texts: Sequence[str]
) -> dict[str, list[Question]]:
    chance, frequency = random.Random(0), Counter(word for text in texts for word in set(words(text)))

    def less(question: Question, probability: float) -> Question:
        held = set(words(" ".join(documents[question.corpus].text[a:b] for a, b in question.excerpts)))
        shared = {word for word in held if frequency[word] < 60}
        kept = [
            word for word in question.text.split()
            if not shared.intersection(words(word)) or chance.random() >= probability
        ]  # fmt: skip
        return Question(" ".join(kept) or question.text, question.corpus, question.excerpts)

    spans = [
        (name, match.span())
        for name, document in documents.items()
        for match in sample(chance, list(SENTENCE.finditer(document.text)), SENTENCES)
    ]

    def of_sentences(make: Callable[[str], str]) -> list[Question]:
        made = [(make(documents[name].text[a:b]), name, (a, b)) for name, (a, b) in spans]
        return [Question(text, name, (span,)) for text, name, span in made if text]

    def rarest(text: str) -> list[str]:
        return sorted(dict.fromkeys(words(text)), key=lambda word: frequency[word])

    def common(text: str) -> str:
        rare = set(rarest(text)[: max(1, len(set(words(text))) // 3)])
        return " ".join(word for word in words(text) if word not in rare)

    def name(text: str) -> str:
        matches = sorted(NAME.findall(text), key=lambda one: min(frequency[word] for word in words(one)))
        return str(matches[0]) if matches else ""

    return {
        "report": list(questions),
        "reworded": [less(question, 0.5) for question in questions],
        "foreign": [less(question, 1.0) for question in questions],
        "half": of_sentences(lambda text: " ".join(w for w in text.split() if chance.random() < 0.5)),
        "rare": of_sentences(lambda text: " ".join(rarest(text)[:6])),
        "common": of_sentences(common),
        "names": of_sentences(name),
    }


def sample(chance: random.Random, matches: list[re.Match[str]], size: int) -> list[re.Match[str]]:
    return chance.sample(matches, min(size, len(matches)))


def measured(
    made: Run, texts: Sequence[str], sets: Mapping[str, Sequence[Question]]
) -> dict[str, dict[str, list[float]]]:
    """Return recall in percent, by form and set of questions."""
    matches: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lexical.sqlite3"
        file = LexicalFile(path, synchronous="OFF")
        empty = np.empty(0, np.float32)
        LexicalIndex(file, "all").upsert(
            [Record(RecordId(str(n)), text, {"language": "en"}, empty) for n, text in enumerate(texts)]
        )
        number = file.number("all")
        file.close()
        with open_for_reading(path) as db:
            for name, questions in sets.items():
                vectors = model().embed([question.text for question in questions])
                for question, cosines in zip(questions, vectors @ made.vectors.T, strict=True):
                    lexical = rank_by_words(db, number, question.text, DEPTH)
                    for form, best in forms(cosines, lexical.order, lexical.most):
                        recall, _, _ = score(question, [made.places[int(id_)] for id_ in best])
                        matches.setdefault(form, {}).setdefault(name, []).append(100 * recall)
    return matches


def forms(cosines: np.ndarray, lexical: Order, most: float) -> Iterator[tuple[str, Fused]]:
    nearest = np.argsort(-cosines, kind="stable")[:DEPTH]
    dense = [(RecordId(str(at)), float(cosines[at])) for at in nearest.tolist()]
    others = {id_: float(cosines[int(id_)]) for id_, _ in lexical}
    yield "dense", [id_ for id_, _ in dense[:NEAREST]]
    yield "lexical", [id_ for id_, _ in lexical[:NEAREST]]
    yield "as search", [one.id for one in fusion.fuse(dense, lexical, others, most, NEAREST)]
    for k in (60, 10):
        yield f"rrf k={k}", reciprocal(dense, lexical, k)
    for weight in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
        for divided in ("best", "most"):
            bound = most if divided == "most" else max((value for _, value in lexical), default=0.0)
            best = fusion.fuse(dense, lexical, others, bound, NEAREST, dense_share=weight)
            yield f"convex {weight} {divided}", [one.id for one in best]


def reciprocal(dense: Order, lexical: Order, k: int) -> Fused:
    total = Counter[RecordId]()
    for order in (dense, lexical):
        for place, (id_, _) in enumerate(order, 1):
            total[id_] += 1 / (k + place)  # type: ignore[assignment]
    return [id_ for id_, _ in total.most_common(NEAREST)]


def show(matches: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    baseline = {name: np.array(values) for name, values in matches["dense"].items()}
    print(" " * 16 + "".join(f"{f'{name} ({len(values)})':>22}" for name, values in baseline.items()))
    for form, sets in matches.items():
        cells = (
            f"{np.mean(values):6.1f} {interval(np.array(values) - baseline[n])}" for n, values in sets.items()
        )
        print(f"{form:16}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


def interval(differences: np.ndarray) -> str:
    picks = np.random.default_rng(0).integers(len(differences), size=(5000, len(differences)))
    low, high = np.percentile(differences[picks].mean(axis=1), [2.5, 97.5])
    return f"({low:+.1f} {high:+.1f})"
