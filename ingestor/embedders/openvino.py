"""Runs a model of the BERT family with OpenVINO, without torch and transformers.

The encoder (BERT, RoBERTa or MPNet) is an OpenVINO graph built from its safetensors. It runs in the chosen
precision; pooling and later stages run in float32. One graph of dynamic shape serves all batches, several of
them at a time. Only texts of one padded length share a batch (exact.py). Then OpenVINO gives each text the
same bits, for any number of texts, threads and streams. ``tests/embedders/openvino/test_model.py`` verifies
that.

The inputs of the graph have the shape (texts, tokens). They are ``ids`` and ``positions`` in int32, and
``mask`` in float32, with 1 for a token and 0 for padding. Its output is the last hidden state, of shape
(texts, tokens, width). The models are those of Devlin et al. 2018, Liu et al. 2019 and Song et al. 2020;
names and constants are as in ``transformers``.

Threads that share a batch wait for one another after each of some hundred operations. If another process
takes one core for a moment, all threads wait. So batches run on streams with cores of their own. This was
measured on two cores while another process used one of them a third of the time. Two streams gave 1.2
(float32) to 1.3 (int8) times the vectors of one stream. On an idle machine they gave 1.0 to 1.1 times.

Pooling reduces each text by itself, over its own tokens. It calls no BLAS, whose order of additions depends
on the number of rows and threads.
"""

import json
import math
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from mmap import ACCESS_COPY, MADV_DONTNEED, mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino
from openvino import opset13 as op
from safetensors.numpy import load_file
from tokenizers import Encoding, Tokenizer

from ingestor.embedders.engines import GELU_MODES, TransformerOutline
from ingestor.embedders.exact import batches, unit
from ingestor.embedders.model_files import Weights, load_tokenizer, unusable
from ingestor.model import EmbeddedPart

Floats = npt.NDArray[np.float32]


def pool(tokens: Floats, modes: Sequence[str]) -> Floats:
    """Return the vector of a text from the vectors of its tokens; shape (width * modes,).

    ``tokens``: vectors of the tokens, without padding; shape (tokens, width). ``modes``: ways of pooling,
    whose results are concatenated.
    """
    return np.concatenate([_pool_by(tokens, mode) for mode in modes])


def _pool_by(tokens: Floats, mode: str) -> Floats:
    vector: Floats
    match mode:
        case "cls":
            vector = tokens[0]
        case "lasttoken":
            vector = tokens[-1]
        case "max":
            vector = tokens.max(axis=0)
        case "mean":
            vector = tokens.sum(axis=0) / np.float32(len(tokens))
        case "mean_sqrt_len_tokens":
            vector = tokens.sum(axis=0) / np.sqrt(np.float32(len(tokens)))
        case "weightedmean":
            weights = np.arange(1, len(tokens) + 1, dtype=np.float32)[:, None]
            vector = (tokens * weights).sum(axis=0) / weights.sum()
        case _:
            raise ValueError(f"the model's pooling {mode!r} is not supported")
    return vector


def project(vector: Floats, weight: Floats, bias: Floats | None, activation: str) -> Floats:
    """Return the result of a dense layer for a vector; shape (out,). ``weight``: shape (out, in)."""
    result: Floats = np.einsum("oi,i->o", weight, vector)
    if bias is not None:
        result = result + bias
    return np.tanh(result) if activation == "Tanh" else result


_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "<u1"}


class MappedTensors:
    """The tensors of a safetensors file, mapped into memory. ``tensors``: arrays by name.

    Raises KeyError for a data type that numpy does not have, such as bfloat16.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            # Writable, though never changed: OpenVINO accepts no read-only arrays.
            self._file = mmap(file.fileno(), 0, access=ACCESS_COPY)
        start = 8 + int.from_bytes(self._file[:8], "little")
        described = json.loads(self._file[8:start])
        described.pop("__metadata__", None)
        self.tensors = {name: self._tensor(start, **of) for name, of in described.items()}

    def _tensor(self, start: int, dtype: str, shape: list[int], data_offsets: list[int]) -> npt.NDArray[Any]:
        kind, (first, end) = np.dtype(_TYPES[dtype]), data_offsets
        tensor = np.frombuffer(self._file, kind, (end - first) // kind.itemsize, start + first)
        return tensor.reshape(shape)

    def free_pages(self) -> None:
        """Free the memory of mapped pages, which the system reads from the file again if needed."""
        self._file.madvise(MADV_DONTNEED)


MOST = 4  # streams; each needs memory of its own, and few documents are embedded at a time

_Inputs = Mapping[str, Any]


class Streams:
    """The inference streams of a compiled model. Threads may share an object; calls may interleave.

    ``number``: how many streams run at the same time.
    """

    def __init__(self, compiled: openvino.CompiledModel) -> None:
        self._compiled = compiled
        self.number: int = compiled.get_property("NUM_STREAMS")
        self._idle: list[openvino.InferRequest] = []  # each has memory of its own

    def outputs(self, batches: Iterable[_Inputs]) -> Generator[Floats]:
        """Yield the output of each batch, in order. An output is valid until the next one is requested."""
        running: deque[tuple[openvino.InferRequest, _Inputs]] = deque()  # their inputs are not copied
        try:
            for inputs in batches:
                if len(running) == 2 * self.number:  # so that each stream has its next batch
                    yield _output(running[0][0])
                    self._idle.append(running.popleft()[0])
                request = self._request()
                request.start_async(inputs, share_inputs=True)
                running.append((request, inputs))
            while running:
                yield _output(running[0][0])
                self._idle.append(running.popleft()[0])
        finally:
            for request, _ in running:
                with suppress(Exception):
                    request.wait()
                self._idle.append(request)

    def _request(self) -> openvino.InferRequest:
        try:
            return self._idle.pop()
        except IndexError:
            return self._compiled.create_infer_request()


def _output(request: openvino.InferRequest) -> Floats:
    request.wait()
    output: Floats = request.get_output_tensor(0).data
    return output


Tensors = Mapping[str, npt.NDArray[Any]]
_MASKED = 1e9  # subtracted from the scores of padding, whose softmax is then 0
_PREFIXES = ("bert.", "roberta.", "mpnet.")  # of checkpoints that carry a head
_BERT_NAMES = {
    "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
    "out": "attention.output.dense", "norm": "attention.output.LayerNorm",
}  # fmt: skip
_MPNET_NAMES = {
    "query": "attention.attn.q", "key": "attention.attn.k", "value": "attention.attn.v",
    "out": "attention.attn.o", "norm": "attention.LayerNorm",
}  # fmt: skip


def graph(outline: TransformerOutline, weights: Tensors, int8: bool = False) -> openvino.Model:
    """Return the encoder as a graph of dynamic shape. Raises KeyError if the weights lack a tensor.

    ``weights``: tensors of the model's file. The graph shares their memory, so they must not change.
    ``int8``: whether linear layers store their matrices and multiply in int8.
    """
    bare = {_plain_name(name): _float32(tensor) for name, tensor in weights.items()}
    return _Builder(outline, bare, int8).model()


def _plain_name(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _float32(tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return tensor.astype(np.float32) if tensor.dtype == np.float16 else tensor


class _Builder:
    def __init__(self, outline: TransformerOutline, weights: Tensors, int8: bool) -> None:
        self._outline, self._config, self._weights = outline, outline.config, weights
        self._matrix = _int8 if int8 else _constant
        self._heads = int(self._config["num_attention_heads"])
        self._width = int(self._config["hidden_size"])
        self._names = _MPNET_NAMES if outline.family == "mpnet" else _BERT_NAMES

    def model(self) -> openvino.Model:
        ids, positions = (
            op.parameter([-1, -1], openvino.Type.i32, name=name) for name in ("ids", "positions")
        )
        mask = op.parameter([-1, -1], openvino.Type.f32, name="mask")
        x = self._embed(ids, positions)
        bias = self._bias(ids, mask)
        for number in range(int(self._config["num_hidden_layers"])):
            x = self._layer(x, bias, f"encoder.layer.{number}.")
        return openvino.Model([x], [ids, positions, mask], self._outline.family)

    def _embed(self, ids: Any, positions: Any) -> Any:
        table = self._weights["embeddings.position_embeddings.weight"]
        if self._outline.family != "mpnet":
            table = table + self._weights["embeddings.token_type_embeddings.weight"][0]  # of a single text
        words = op.gather(_constant(self._weights["embeddings.word_embeddings.weight"]), ids, _integer(0))
        return self._normalize(
            op.add(words, op.gather(_constant(table), positions, _integer(0))), "embeddings.LayerNorm"
        )

    def _bias(self, ids: Any, mask: Any) -> Any:
        """Return the term added to the attention scores; shape (texts, 1 or heads, 1 or tokens, tokens).

        It excludes padding, and in MPNet depends on the distance of two tokens.
        """
        padding = op.multiply(op.subtract(op.unsqueeze(mask, _integer(1, 2)), _number(1)), _number(_MASKED))
        if self._outline.family != "mpnet":
            return padding
        window = self._outline.window
        buckets = relative_buckets(window, int(self._config.get("relative_attention_num_buckets", 32)))
        table = self._weights["encoder.relative_attention_bias.weight"][buckets]  # (window, window, heads)
        length = op.gather(op.shape_of(ids, "i32"), _integer(1), _integer(0))
        stop = op.concat([length, length], 0)
        near = op.slice(
            _constant(table.transpose(2, 0, 1)[None]), _integer(0, 0), stop, _integer(1, 1), _integer(2, 3)
        )
        return op.add(near, padding)

    def _layer(self, x: Any, bias: Any, at: str) -> Any:
        query, key, value = (
            self._split(self._linear(x, at + self._names[n])) for n in ("query", "key", "value")
        )
        seen = op.scaled_dot_product_attention(query, key, value, bias, causal=False)
        joined = op.reshape(op.transpose(seen, _integer(0, 2, 1, 3)), _integer(0, 0, self._width), True)
        x = self._normalize(
            op.add(self._linear(joined, at + self._names["out"]), x), at + self._names["norm"]
        )
        inner = self._activate(self._linear(x, at + "intermediate.dense"))
        return self._normalize(op.add(self._linear(inner, at + "output.dense"), x), at + "output.LayerNorm")

    def _split(self, x: Any) -> Any:
        """Split by attention heads: (texts, tokens, width) -> (texts, heads, tokens, width of a head)."""
        each = _integer(0, 0, self._heads, self._width // self._heads)
        return op.transpose(op.reshape(x, each, True), _integer(0, 2, 1, 3))

    def _linear(self, x: Any, name: str) -> Any:
        product = op.matmul(x, self._matrix(self._weights[f"{name}.weight"]), False, True)
        return op.add(product, _constant(self._weights[f"{name}.bias"]))

    def _normalize(self, x: Any, name: str) -> Any:
        small = float(self._config.get("layer_norm_eps", 1e-12))
        even = op.mvn(x, _integer(-1), True, small, "inside_sqrt")
        scaled = op.multiply(even, _constant(self._weights[f"{name}.weight"]))
        return op.add(scaled, _constant(self._weights[f"{name}.bias"]))

    def _activate(self, x: Any) -> Any:
        kind = self._config.get("hidden_act", "gelu")
        return op.relu(x) if kind == "relu" else op.gelu(x, GELU_MODES[kind])


def relative_buckets(window: int, count: int, furthest: int = 128) -> npt.NDArray[np.int64]:
    """Return the bucket for the distance between each two tokens, as in T5 and MPNet; shape (window, window).

    One half of the ``count`` buckets is for earlier tokens, the other for later tokens. Each short distance
    has a bucket of its own. Longer distances, up to ``furthest``, share buckets by their logarithm.
    """
    positions = np.arange(window)
    distance = positions[:, None] - positions[None, :]
    half = count // 2
    exact = half // 2
    far = np.abs(distance)
    with np.errstate(divide="ignore"):
        logarithm = np.log(far.astype(np.float32) / np.float32(exact)) / np.float32(
            math.log(furthest / exact)
        )
    shared = exact + np.where(far < exact, 0, logarithm * np.float32(half - exact)).astype(np.int64)
    return np.where(distance < 0, half, 0) + np.where(far < exact, far, np.minimum(shared, half - 1))


def _constant(tensor: npt.NDArray[Any]) -> Any:
    return op.constant(np.ascontiguousarray(tensor), shared_memory=True)


def _int8(matrix: npt.NDArray[Any]) -> Any:
    """Return a constant matrix stored in int8.

    In each row, the largest magnitude has 127 steps.
    """
    step = np.abs(matrix).max(axis=1, keepdims=True) / np.float32(127)
    step[step == 0] = 1
    steps = _constant(np.rint(matrix / step).astype(np.int8))
    return op.multiply(op.convert(steps, "f32"), _constant(step))


def _number(value: float) -> Any:
    return op.constant(np.float32(value))


def _integer(*values: int) -> Any:
    return op.constant(np.array(values, np.int32))


_SHAPES = 64  # (texts, tokens) whose kernels are kept
_ENOUGH = 256  # tokens of a batch; larger batches are no faster, because streams end far apart
_GROUP = 64  # values of a token's vector that share a step in int8


class OpenVinoModel:
    """A model that OpenVINO runs (see LoadedModel). Threads may share it.

    Raises NeedsHuman if its files cannot be used.
    """

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
        """Yield the vectors of the texts, batch by batch (see LoadedModel).

        ``budget``: number of tokens that all streams together embed at a time, approximately.
        """
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
                self._mapped.free_pages()  # OpenVINO keeps packed matrices, and uses few rows of tables
        empty = [at for at, length in enumerate(lengths) if not length]
        yield EmbeddedPart(empty, unit(np.zeros((len(empty), self.dimensions), np.float32)))

    def counter(self) -> Tokenizer:
        """Return the model's tokenizer, without truncation.

        Raises FileNotFoundError if the model has no tokenizer.json.
        """
        tokenizer = load_tokenizer(self._outline.weights.parent)
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
        """Return, for each token, its row in the table of position embeddings; shape (texts, tokens).

        RoBERTa and MPNet do not count padding tokens.
        """
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
        "NUM_STREAMS": MOST,  # at most; fewer with fewer cores or threads
        "CPU_RUNTIME_CACHE_CAPACITY": _SHAPES,
        "ENABLE_CPU_PINNING": False,  # other processes may use any core
        **({"DYNAMIC_QUANTIZATION_GROUP_SIZE": _GROUP} if precision == "int8" else {}),
        **({"INFERENCE_NUM_THREADS": threads} if threads else {}),
    }
    return openvino.Core().compile_model(graph(outline, tensors, precision == "int8"), "CPU", settings)
