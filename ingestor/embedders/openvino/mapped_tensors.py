"""Tensors of a safetensors file that stay in the file: only what is read of them takes memory.

The file must not change while the tensors are used. https://github.com/huggingface/safetensors#format
"""

import json
from mmap import ACCESS_COPY, MADV_DONTNEED, mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "<u1"}


class MappedTensors:
    """``tensors``: by name. Raises KeyError for a type that numpy does not know, such as bfloat16."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:  # a copy is never made: OpenVINO takes no arrays that are read-only
            self._file = mmap(file.fileno(), 0, access=ACCESS_COPY)
        start = 8 + int.from_bytes(self._file[:8], "little")
        described = json.loads(self._file[8:start])
        described.pop("__metadata__", None)
        self.tensors = {name: self._tensor(start, **of) for name, of in described.items()}

    def _tensor(self, start: int, dtype: str, shape: list[int], data_offsets: list[int]) -> npt.NDArray[Any]:
        kind, (first, end) = np.dtype(_TYPES[dtype]), data_offsets
        tensor = np.frombuffer(self._file, kind, (end - first) // kind.itemsize, start + first)
        return tensor.reshape(shape)

    def give_back(self) -> None:
        """Free the memory of what was read; it is read from the file again where it is needed."""
        self._file.madvise(MADV_DONTNEED)
