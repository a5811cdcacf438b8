"""A model of the BERT family in memory, run by OpenVINO: needs neither torch nor transformers.

The encoder runs in the asked precision, the pooling and all behind it in float32 (token_pooling.py). One
graph of dynamic shape serves all batches. Texts are batched only with texts of their padded length
(batches.py). Then OpenVINO gives each text the same bits, whatever the number of texts and of threads: the
tests in ``tests/embedders/openvino/test_model.py`` verify that.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import openvino
from safetensors.numpy import load_file
from tokenizers import Encoding, Tokenizer

from ingestor.embedders.batches import batches
from ingestor.embedders.openvino.graph import Tensors, graph
from ingestor.embedders.openvino.mapped_tensors import MappedTensors
from ingestor.embedders.outline import TransformerOutline
from ingestor.embedders.rounding import unit
from ingestor.embedders.token_pooling import Floats, pooled, projected
from ingestor.embedders.tokenizing import from_folder
from ingestor.embedders.weights import Weights, unusable
from ingestor.model import Vectors

_SHAPES = 64  # (texts, tokens) whose kernels are kept
_GROUP = 64  # values of a token's vector that share a step where int8 is multiplied


class OpenVinoModel:
    """Threads may share it. Raises NeedsHuman when the model can't be loaded or is not the published one."""

    def __init__(self, weights: Weights, outline: TransformerOutline, precision: str, threads: int) -> None:
        weights.verify()
        self._outline, self.window = outline, outline.window
        try:
            self._projections = [(load_file(each.weights), each.activation) for each in outline.projections]
            self._mapped = MappedTensors(outline.weights) if weights.fixed else None
            tensors = load_file(outline.weights) if self._mapped is None else self._mapped.tensors
            self._request = _compiled(outline, tensors, precision, threads).create_infer_request()
            self._truncating = self.counter()
        except Exception as error:
            raise unusable(weights.name, error) from error
        self._truncating.enable_truncation(self.window, direction=outline.truncation_side)
        self._lock = Lock()
        self._width = int(outline.config["hidden_size"])
        widths = [layer["linear.weight"].shape[0] for layer, _ in self._projections]
        self.dimensions: int = widths[-1] if widths else self._width * len(outline.poolings)

    def vectors(self, texts: Sequence[str], prompt: str, budget: int) -> Vectors:
        """(n, dimensions) unit vectors, in batches of about ``budget`` tokens."""
        found = np.zeros((len(texts), self.dimensions), np.float32)
        encodings = self._truncating.encode_batch([prompt + text for text in texts])
        for batch in batches([len(encoding) for encoding in encodings], self.window, budget):
            chosen = [encodings[position] for position in batch.members]
            found[list(batch.members)] = self._forward(chosen, batch.length)
        if self._mapped is not None:
            self._mapped.give_back()  # the matrices were packed, and few rows of the tables are used
        return unit(found)

    def counter(self) -> Tokenizer:
        """The model's own tokenizer, without truncation."""
        found = from_folder(self._outline.weights.parent)
        if found is None:
            raise FileNotFoundError("tokenizer.json")
        return found

    def _forward(self, encodings: Sequence[Encoding], length: int) -> Floats:
        ids = np.zeros((len(encodings), length), np.int32)
        mask = np.zeros((len(encodings), length), np.float32)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding)] = encoding.ids
            mask[row, : len(encoding)] = 1
        with self._lock:
            inputs = {"ids": ids, "positions": self._positions(ids, mask), "mask": mask}
            tokens = next(iter(self._request.infer(inputs, share_inputs=True, share_outputs=True).values()))
            return np.stack([self._vector(tokens[row, : len(each)]) for row, each in enumerate(encodings)])

    def _positions(self, ids: Any, mask: Any) -> Any:
        """Rows of the position table. RoBERTa and MPNet do not count padding tokens, wherever they stand."""
        first = self._outline.first_position
        if self._outline.family == "bert":
            return np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape).copy()
        counted = (mask > 0) & (ids != first - 1)
        return (np.cumsum(counted, axis=1) * counted + first - 1).astype(np.int32)

    def _vector(self, tokens: Floats) -> Floats:
        vector = pooled(tokens, self._outline.poolings)
        for layer, activation in self._projections:
            vector = projected(vector, layer["linear.weight"], layer.get("linear.bias"), activation)
        return vector


def _compiled(
    outline: TransformerOutline, tensors: Tensors, precision: str, threads: int
) -> openvino.CompiledModel:
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if precision == "bfloat16" else "f32",
        "EXECUTION_MODE_HINT": "ACCURACY" if precision == "float32" else "PERFORMANCE",
        "NUM_STREAMS": 1,
        "CPU_RUNTIME_CACHE_CAPACITY": _SHAPES,
        "ENABLE_CPU_PINNING": False,  # the machine's other work may have any core
        **({"DYNAMIC_QUANTIZATION_GROUP_SIZE": _GROUP} if precision == "int8" else {}),
        **({"INFERENCE_NUM_THREADS": threads} if threads else {}),
    }
    return openvino.Core().compile_model(graph(outline, tensors, precision == "int8"), "CPU", settings)
