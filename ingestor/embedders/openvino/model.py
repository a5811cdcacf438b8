"""A model of the BERT family in memory, run by OpenVINO: needs neither torch nor transformers.

The encoder runs in the asked precision, the pooling and all behind it in float32 (token_pooling.py). One
graph of dynamic shape serves all batches, several of them at a time (streams.py). Texts are batched only with
texts of their padded length (batches.py). Then OpenVINO gives each text the same bits, whatever the number of
texts, threads and streams: the tests in ``tests/embedders/openvino/test_model.py`` verify that.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import openvino
from safetensors.numpy import load_file
from tokenizers import Encoding, Tokenizer

from ingestor.embedders.batches import batches
from ingestor.embedders.openvino.graph import Tensors, graph
from ingestor.embedders.openvino.mapped_tensors import MappedTensors
from ingestor.embedders.openvino.streams import MOST, Streams
from ingestor.embedders.outline import TransformerOutline
from ingestor.embedders.rounding import unit
from ingestor.embedders.token_pooling import Floats, pool, project
from ingestor.embedders.tokenizing import from_folder
from ingestor.embedders.weights import Weights, unusable
from ingestor.model import EmbeddedPart

_SHAPES = 64  # (texts, tokens) whose kernels are kept
_ENOUGH = 256  # tokens of a batch: with more, streams end far apart and are no faster
_GROUP = 64  # values of a token's vector that share a step where int8 is multiplied


class OpenVinoModel:
    """Threads may share it. Raises NeedsHuman when the model can't be loaded or is not the published one."""

    def __init__(self, weights: Weights, outline: TransformerOutline, precision: str, threads: int) -> None:
        weights.verify()
        self._outline, self.window = outline, outline.window
        try:
            self._projections = [(load_file(each.weights), each.activation) for each in outline.projections]
            self._mapped = MappedTensors(outline.weights) if weights.is_fixed else None
            tensors = load_file(outline.weights) if self._mapped is None else self._mapped.tensors
            self._streams = Streams(_compile(outline, tensors, precision, threads))
            self._truncating = self.counter()
        except Exception as error:
            raise unusable(weights.name, error) from error
        self._truncating.enable_truncation(self.window, direction=outline.truncation_side)
        self._width = int(outline.config["hidden_size"])
        widths = [layer["linear.weight"].shape[0] for layer, _ in self._projections]
        self.dimensions: int = widths[-1] if widths else self._width * len(outline.poolings)

    def parts(self, texts: Sequence[str], prompt: str, budget: int) -> Generator[EmbeddedPart]:
        """See LoadedModel. About ``budget`` tokens are embedded at a time."""
        encodings = self._truncating.encode_batch([prompt + text for text in texts])
        lengths = [len(encoding) for encoding in encodings]
        chosen = batches(lengths, self.window, min(budget // self._streams.number, _ENOUGH))
        inputs = (self._inputs([encodings[at] for at in batch.members], batch.length) for batch in chosen)
        try:
            with closing(self._streams.outputs(inputs)) as outputs:
                for batch, tokens in zip(chosen, outputs, strict=True):
                    vectors = [
                        self._vector(tokens[row, : lengths[at]]) for row, at in enumerate(batch.members)
                    ]
                    yield EmbeddedPart(batch.members, unit(np.array(vectors)))
        finally:
            if self._mapped is not None:
                self._mapped.give_back()  # the matrices were packed, and few rows of the tables are used
        empty = [at for at, length in enumerate(lengths) if not length]
        yield EmbeddedPart(empty, unit(np.zeros((len(empty), self.dimensions), np.float32)))

    def counter(self) -> Tokenizer:
        """The model's own tokenizer, without truncation."""
        tokenizer = from_folder(self._outline.weights.parent)
        if tokenizer is None:
            raise FileNotFoundError("tokenizer.json")
        return tokenizer

    def _inputs(self, encodings: Sequence[Encoding], length: int) -> dict[str, Any]:
        ids = np.zeros((len(encodings), length), np.int32)
        mask = np.zeros((len(encodings), length), np.float32)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding)] = encoding.ids
            mask[row, : len(encoding)] = 1
        return {"ids": ids, "positions": self._positions(ids, mask), "mask": mask}

    def _positions(self, ids: Any, mask: Any) -> Any:
        """Rows of the position table. RoBERTa and MPNet do not count padding tokens, wherever they stand."""
        first = self._outline.first_position
        if self._outline.family == "bert":
            return np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape).copy()
        counted = (mask > 0) & (ids != first - 1)
        return (np.cumsum(counted, axis=1) * counted + first - 1).astype(np.int32)

    def _vector(self, tokens: Floats) -> Floats:
        vector = pool(tokens, self._outline.poolings)
        for layer, activation in self._projections:
            vector = project(vector, layer["linear.weight"], layer.get("linear.bias"), activation)
        return vector


def _compile(
    outline: TransformerOutline, tensors: Tensors, precision: str, threads: int
) -> openvino.CompiledModel:
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if precision == "bfloat16" else "f32",
        "EXECUTION_MODE_HINT": "ACCURACY" if precision == "float32" else "PERFORMANCE",
        "NUM_STREAMS": MOST,  # fewer where there are fewer cores or threads
        "CPU_RUNTIME_CACHE_CAPACITY": _SHAPES,
        "ENABLE_CPU_PINNING": False,  # the machine's other work may have any core
        **({"DYNAMIC_QUANTIZATION_GROUP_SIZE": _GROUP} if precision == "int8" else {}),
        **({"INFERENCE_NUM_THREADS": threads} if threads else {}),
    }
    return openvino.Core().compile_model(graph(outline, tensors, precision == "int8"), "CPU", settings)
