"""Statements cut in two, and functions found by their docstrings, in modules of Python's standard library.

``python -m benchmarks code [MODULES]``: the docstrings of functions are taken out of the modules and asked as
questions; the excerpt is the function. *torn*: chunks that begin inside a statement, other than a
function, class, loop or condition, of at most 125 tokens. Recall is in percent at 500 and 1,000 tokens,
all-MiniLM-L6-v2, exact search, and the 95 % interval of the difference from the first strategy. Vectors are
kept under ``.cache/``.
"""

import ast
from itertools import accumulate
from pathlib import Path

import numpy as np

from benchmarks.retrieval import model, tokens
from ingestor.chunkers.by_type import build_chunker
from ingestor.evaluate.comparison import compare
from ingestor.evaluate.scores import ChunkPlace, EvalQuestion, Excerpt, score, within
from ingestor.model import Blob, Document
from ingestor.pipeline.prepare import embedded_texts
from ingestor.registry import find
from ingestor.segmentation.pooling import mix
from ingestor.text.context import contexts

MODULES = 20
STRATEGIES = (
    ("changepoint", {"by_type": {}}),
    ("changepoint", {}),
    ("changepoint", {"by_type": {"code": {"strategy": "structure", "max_tokens": 200}}}),
    ("changepoint", {"by_type": {"code": "structure"}}),
    ("recursive", {}),
)
FITS = 125
BUDGETS = (500, 1000)


def main(modules: int = MODULES) -> None:
    sources = [path for path in sorted(Path(ast.__file__).parent.glob("*.py")) if path.stat().st_size > 8000]
    documents, questions = list[Document](), list[EvalQuestion]()
    for path in sources[:: max(1, len(sources) // modules)][:modules]:
        text, asked = without_docstrings(path.read_text("utf-8"), len(documents))
        documents.append(find("parsers", "code").build(None).parse(Blob(text.encode(), path.name)))
        questions += asked
    print(f"{len(documents)} modules, {len(questions)} questions")
    asked = model().embed([each.text for each in questions])
    rows = [measure(documents, questions, asked, kind, options) for kind, options in STRATEGIES]
    for at, budget in enumerate(BUDGETS):
        about = [each.excerpts[0].document for each in questions]
        comparison = compare(np.array([row[1][at] for row in rows]), about)
        print(f"\nrecall at {budget} tokens")
        for number, (kind, options) in enumerate(STRATEGIES):
            gained = (
                ""
                if not number
                else "({0.low:+.3f} to {0.high:+.3f})".format(comparison.difference(number, 0).interval)
            )
            mean = 100 * comparison.means[number].mean
            print(f"{mean:6.1f} {gained:20} {rows[number][0]}  {kind} {options}")


def measure(documents, questions, asked, kind, options):  # type: ignore[no-untyped-def]
    """Return facts of the chunks, and the recall of each question at each budget."""
    plugin = find("chunkers", kind)
    chosen = plugin.options(**options)
    chunker = build_chunker(plugin, chosen, tokens())
    places, vectors, torn = list[ChunkPlace](), [], 0
    for number, document in enumerate(documents):
        made = chunker.chunk(document, model().embed, None)
        texts = embedded_texts(made.chunks, contexts(document, made.chunks, chosen.context))
        encoded = model().embed(texts) if made.vectors is None else made.vectors
        share = chosen.neighbours if made.neighbours is None else made.neighbours
        vectors.append(mix(encoded, share) if made.vectors is None and share else encoded)
        text = document.text
        spans = [(a, b) for a, b in statements(text) if tokens().count(text[a:b]) <= FITS]
        for chunk in made.chunks:
            torn += any(a < chunk.start < b for a, b in spans)
            places.append(ChunkPlace(number, ((chunk.start, chunk.end),), tokens().count(chunk.text)))
    ranked = np.argsort(-(asked @ np.concatenate(vectors).T), axis=1)
    recall = [
        [score(q.excerpts, list(within([places[at] for at in best], n))).recall
         for q, best in zip(questions, ranked.tolist(), strict=True)] for n in BUDGETS
    ]  # fmt: skip
    mean = sum(place.tokens for place in places) / len(places)
    return f"{len(places)} chunks, {mean:.0f} tokens, {100 * torn / len(places):.0f} % torn", recall


def starts_of(text: str) -> list[int]:
    return [0, *accumulate(len(line) for line in text.splitlines(keepends=True))]


def statements(text: str) -> list[tuple[int, int]]:
    """Return the spans of statements that hold no others, from the first line to the end of the last."""
    lines = starts_of(text)
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt) and not hasattr(n, "body")]
    return [(lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno or 0]) for node in nodes]


def without_docstrings(text: str, number: int) -> tuple[str, list[EvalQuestion]]:
    """Return the text without the docstrings of functions, and a question of each that has six words."""
    lines, asked = text.splitlines(keepends=True), list[tuple[str, int, int]]()
    for node in ast.walk(ast.parse(text)):
        said = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
        if said and len(node.body) > 2:  # type: ignore[attr-defined]
            first = node.body[0]  # type: ignore[attr-defined]
            lines[first.lineno - 1 : first.end_lineno] = [""] * (first.end_lineno - first.lineno + 1)
            words = said.split("\n\n")[0].split()
            if 6 <= len(words) <= 40:
                asked.append((" ".join(words), node.lineno - 1, node.end_lineno))  # type: ignore[attr-defined]
    starts = [0, *accumulate(map(len, lines))]
    return "".join(lines), [
        EvalQuestion(words, (Excerpt(number, starts[first], starts[last]),)) for words, first, last in asked
    ]
