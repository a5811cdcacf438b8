"""Vectors of an embedder that computes them in this process."""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from time import monotonic

from ingestor.core.events import event
from ingestor.core.interruptions import Stopped
from ingestor.engine.vectors.check import BadVectors, checked
from ingestor.model import Answered, EmbeddedPart, Vector
from ingestor.ports import Embedder, Gradual, Stop

log = logging.getLogger("ingestor")

STEP = 16  # texts of documents that a model which is not gradual embeds before questions have their turn


class LocalVectors:
    """Raises what the embedder raises, for all texts together."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._loaded = False

    def load(self, texts: Sequence[str]) -> None:
        """Load the model, which does not count as embedding."""
        if not self._loaded:
            begun = monotonic()
            log.info("loading the model", extra=event("model_loading"))
            self._embedder.embed(texts[:1])
            self._loaded, seconds = True, round(monotonic() - begun, 3)
            log.info("model loaded in %.1f s", seconds, extra=event("model_loaded", seconds=seconds))

    def __call__(self, texts: Sequence[str], stop: Stop, between_steps: Callable[[int], None]) -> Answered:
        """Embed in steps; ``between_steps`` gets the number of texts of each. Raises Stopped, too."""
        vectors: list[Vector | Exception] = [BadVectors("the embedder gave this text no vector")] * len(texts)
        model, left = self._embedder, len(texts)
        with closing(
            model.embed_gradually(texts) if isinstance(model, Gradual) else self._steps(texts)
        ) as parts:
            for part in parts:
                chosen = [texts[position] for position in part.positions]
                rows = checked(part.vectors, chosen, model.dimensions)
                for position, vector in zip(part.positions, rows, strict=True):
                    vectors[position] = vector
                left -= len(rows)
                between_steps(len(rows))
                if left and stop.is_set():
                    raise Stopped
        return Answered(vectors)

    def _steps(self, texts: Sequence[str]) -> Generator[EmbeddedPart]:
        """Each holds texts of similar lengths, as embedders batch them."""
        longest_first = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        for start in range(0, len(texts), STEP):
            step = longest_first[start : start + STEP]
            yield EmbeddedPart(step, self._embedder.embed([texts[position] for position in step]))
