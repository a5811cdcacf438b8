"""Computes the vectors of documents by one embedder, in this process or on a server, and checks them."""

from collections.abc import Generator, Sequence
from contextlib import closing

import numpy as np

from ingestor.core.fingerprint import text_digest
from ingestor.core.listings import pages
from ingestor.model import Answered, EmbeddedPart, Fingerprint, Vector, Vectors
from ingestor.ports import Embedder, Gradual, NeedsHuman, Remote, Stop
from ingestor.state.cache import VectorCache
from ingestor.units import quantity

_TOLERANCE = 0.01  # of a unit vector's length; rounding to float16 moves it by 0.0005, to bfloat16 by 0.004
_QUOTED = 60  # code points of a text


class BadVectors(Exception):
    """Error: the embedder's vectors break its protocol. They are neither cached nor written."""


def check_vectors(answer: object, texts: Sequence[str], dimensions: int) -> Vectors:
    """Return an embedder's vectors as an array (n, dimensions) of float32.

    ``answer``: what the embedder returned. It is copied, because an embedder may reuse its memory. Raises
    BadVectors if the shape is wrong, or if a vector is not finite or not of length 1.
    """
    try:
        with np.errstate(over="ignore"):
            vectors: Vectors = np.array(answer, np.float32)
    except (TypeError, ValueError) as error:
        raise BadVectors(f"the embedder returned no array of numbers: {error}") from error
    if vectors.shape != (len(texts), dimensions):
        raise BadVectors(
            f"the embedder returned an array of shape {vectors.shape} for {quantity(len(texts), 'text')}; "
            f"of {dimensions} dimensions it must be {(len(texts), dimensions)}"
        )
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    off = np.flatnonzero(~(np.abs(lengths - 1) <= _TOLERANCE))  # negated: NaN compares as False
    if off.size:
        text = texts[int(off[0])]
        raise BadVectors(
            f"the embedder returned a vector of length {lengths[off[0]]:.4g}, which must be 1, for the text "
            f"that begins with {text[:_QUOTED]!r}"
        )
    return vectors


STEP = 16  # texts that a model which is not ``Gradual`` embeds before waiting questions are embedded


def embed_in_steps(embedder: Embedder, texts: Sequence[str]) -> Generator[EmbeddedPart]:
    """Embed texts in this process, and yield the checked vectors of each step.

    Each step has texts of similar length, since embedders pad a batch to one length. Raises the errors of the
    embedder, and BadVectors.
    """
    longest_first = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
    steps = (
        EmbeddedPart(step, embedder.embed([texts[position] for position in step]))
        for step in pages(longest_first, STEP)
    )
    with closing(embedder.embed_gradually(texts) if isinstance(embedder, Gradual) else steps) as parts:
        for part in parts:
            chosen = [texts[position] for position in part.positions]
            yield EmbeddedPart(part.positions, check_vectors(part.vectors, chosen, embedder.dimensions))


HARMLESS = "word"  # a text that every model can embed
ALIKE = 0.99  # cosine of two vectors of one model for the same text; that of unrelated models is near 0


def embed_on_server(
    embedder: Embedder, recipe: Fingerprint, cache: VectorCache, texts: Sequence[str], stop: Stop
) -> Answered:
    """Embed texts on a server. An error of one text does not fail the others. ``recipe``: the embedder's
    recipe.

    A server may silently run another model: its address may lead to another machine, and some servers ignore
    the model's name. So every request also contains one fixed word, and its vector is compared with the
    cached one. If they differ, no vector of the request is cached or written.
    """
    assert isinstance(embedder, Remote)
    answered = embedder.embed_each([HARMLESS, *texts], stop)
    now, *vectors = answered.vectors
    error = now if isinstance(now, Exception) else find_other_model(recipe, cache, now)
    if error is not None:
        return Answered([error] * len(texts), answered.tokens)
    if sound := [at for at, vector in enumerate(vectors) if not isinstance(vector, Exception)]:
        check_vectors([vectors[at] for at in sound], [texts[at] for at in sound], embedder.dimensions)
    return Answered(vectors, answered.tokens)


def find_other_model(recipe: Fingerprint, cache: VectorCache, now: Vector) -> NeedsHuman | None:
    """Return an error if the server runs another model than before, else None.

    ``now``: the server's vector of the fixed word. It is compared with the cached vector; the first one is
    cached.
    """
    digest = text_digest(HARMLESS)
    before = cache.get(recipe, [digest]).get(digest)
    if before is None:
        cache.put(recipe, [digest], np.array([now]))
        return None
    if before.shape != now.shape:
        why = f"{len(now)} numbers, not {len(before)}"
    elif (cosine := float(before @ now)) < ALIKE:
        why = f"cosine {cosine:.2f}"
    else:
        return None
    return NeedsHuman(
        f"the embedding server returns other vectors for the same text than before ({why}), so it runs "
        "another model: point `embedding.base_url` to the former model, or change `embedding.revision`, "
        "which embeds everything again"
    )
