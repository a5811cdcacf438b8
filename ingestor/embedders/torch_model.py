"""Runs a sentence-transformers model with torch, which only this module needs and imports at first use.

The transformer runs in the chosen precision, later stages (pooling, projection) in float32. exact.py forms
the batches. On devices other than a CPU every batch is filled up to a fixed number of rows: the device's
results may depend on their number. No such device was tested.

Some models do not read plain tokens: they use chat templates or static embeddings, or their pooling ignores
the prompt. For these, the library prepares the input, one text at a time.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device
from tokenizers import Encoding, Tokenizer
from transformers.utils import logging as transformers_logging

from ingestor.embedders.engines import cpu_flags
from ingestor.embedders.exact import batches, rows, unit
from ingestor.embedders.model_files import Weights, disable_truncation, unusable
from ingestor.model import EmbeddedPart, Vectors

_ARITHMETIC = {  # read from the environment at the first matrix product of the process
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",  # the widest instruction set that may be used
    "MKL_CBWR": "AVX512,STRICT" if "avx512f" in cpu_flags() else "AVX2,STRICT",
}
_ENDLESS = 2**31 - 1  # tokens, of a model that names no window
_Features = dict[str, Any]  # tensors, by the names that the model's stages expect
_Input = tuple[tuple[int, ...], _Features]  # positions of texts, and the model's input for them


class TorchModel:
    """A model that torch runs (see LoadedModel). Threads may share it.

    Raises NeedsHuman if the model cannot be loaded, or is not the published one.
    """

    def __init__(self, weights: Weights, device: str, precision: str, threads: int) -> None:
        weights.verify()
        fix_arithmetic()
        if threads:
            torch.set_num_threads(threads)  # of the whole process
        self._model, self._device = _load(weights, device), torch.device(device)
        self._first, *self._rest = self._model.children()
        self._first.to(getattr(torch, precision))
        self.dimensions = int(self._model.get_embedding_dimension())
        self.window = int(min(self._model.max_seq_length or _ENDLESS, _ENDLESS))
        self._tokenizer = cast(Any, getattr(self._first, "tokenizer", None))
        self._fill = self._device.type != "cpu"
        if self._is_plain(""):
            self._truncating = self.counter()
            self._truncating.enable_truncation(self.window, direction=self._tokenizer.truncation_side)

    def parts(self, texts: Sequence[str], prompt: str, budget: int) -> Generator[EmbeddedPart]:
        """Yield the vectors of the texts batch by batch (see LoadedModel). ``budget``: tokens of a batch."""
        empty = set(range(len(texts)))
        plain = self._is_plain(prompt)
        for members, features in (
            self._prepare_batches(texts, prompt, budget) if plain else self._singly(texts, prompt)
        ):
            empty.difference_update(members)
            yield EmbeddedPart(members, unit(self._forward(features)[: len(members)]))
        yield EmbeddedPart(sorted(empty), unit(np.zeros((len(empty), self.dimensions), np.float32)))

    def counter(self) -> Tokenizer:
        """Return the model's own tokenizer, without truncation. Raises TypeError if it cannot count."""
        backend = getattr(self._tokenizer, "backend_tokenizer", self._tokenizer)
        if not isinstance(backend, Tokenizer):
            raise TypeError(f"the model's tokenizer ({type(self._tokenizer).__name__}) can't count tokens")
        return disable_truncation(Tokenizer.from_str(backend.to_str()))

    def _is_plain(self, prompt: str) -> bool:
        """Return whether the model reads only a text's tokens, so that batches can be formed here."""
        kinds = getattr(self._first, "modality_config", {})
        prompt_is_pooled = all(getattr(stage, "include_prompt", True) for stage in self._rest)
        return "text" in kinds and "message" not in kinds and (prompt_is_pooled or not prompt)

    def _prepare_batches(self, texts: Sequence[str], prompt: str, budget: int) -> Iterator[_Input]:
        encodings = self._truncating.encode_batch([prompt + text for text in texts])
        for batch in batches([len(encoding) for encoding in encodings], self.window, budget):
            chosen = [encodings[position] for position in batch.members]
            if self._fill:
                chosen += chosen[-1:] * (rows(batch.length, budget) - len(chosen))
            yield batch.members, self._features(chosen, batch.length)

    def _singly(self, texts: Sequence[str], prompt: str) -> Iterator[_Input]:
        for position, text in enumerate(texts):
            yield (position,), self._model.preprocess([text], prompt=prompt or None)

    def _features(self, encodings: Sequence[Encoding], length: int) -> _Features:
        tokenizer = self._tokenizer
        for encoding in encodings:
            encoding.pad(
                length,
                direction=tokenizer.padding_side,
                pad_id=tokenizer.pad_token_id or 0,
                pad_type_id=tokenizer.pad_token_type_id,
                pad_token=tokenizer.pad_token or "",
            )
        features = {
            "input_ids": [encoding.ids for encoding in encodings],
            "attention_mask": [encoding.attention_mask for encoding in encodings],
            "token_type_ids": [encoding.type_ids for encoding in encodings],
        }
        wanted = tokenizer.model_input_names
        return {name: torch.tensor(values) for name, values in features.items() if name in wanted}

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _forward(self, features: _Features) -> Vectors:
        features = self._first(batch_to_device(features, self._device))
        features = {name: _widen(value) for name, value in features.items()}
        for stage in self._rest:
            features = stage(features)
        vectors: Vectors = _widen(features["sentence_embedding"]).cpu().numpy()
        return vectors


def fix_arithmetic() -> None:
    """Make matrix products independent of the size of a batch and of the number of threads.

    Otherwise, AMX gives a text's bfloat16 vector other bits in a batch of another size, and MKL's float32
    sums depend on the number of threads. Both were seen with torch 2.13 on Granite Rapids. The call has no
    effect once torch has multiplied matrices.
    """
    before = {name: os.environ.get(name) for name in _ARITHMETIC}
    os.environ.update({name: before[name] or value for name, value in _ARITHMETIC.items()})
    for kind in (torch.bfloat16, torch.float32):
        torch.ones(64, 64, dtype=kind) @ torch.ones(64, 64, dtype=kind)
    for name in (name for name, value in before.items() if value is None):
        del os.environ[name]


def _load(weights: Weights, device: str) -> SentenceTransformer:
    on_hub = weights.revision is not None
    try:
        with quiet():
            model = SentenceTransformer(
                weights.name if on_hub else str(weights.folder),
                device=device,
                revision=weights.revision,
                local_files_only=not on_hub,
                model_kwargs={"dtype": torch.float32},
            )
    except Exception as error:
        raise unusable(weights.name, error) from error
    return model.eval()


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the progress bars of transformers in a ``with`` block."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


def _widen(value: Any) -> Any:
    """Return a tensor of floats as float32, and any other value unchanged."""
    return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
