"""Tensors that stay in their file are those that safetensors reads."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ingestor.embedders.model_files import Weights
from ingestor.embedders.openvino import MappedTensors

TENSORS = {
    "table": np.arange(12, dtype=np.float32).reshape(3, 4),
    "half": np.linspace(-1, 1, 5, dtype=np.float16),
    "double": np.array([[0.1]]),
    "numbers": np.array([2**40, -1]),
    "ids": np.array([[7], [8]], np.int32),
    "bytes": np.array([255], np.uint8),
    "scalar": np.float32(3),
    "empty": np.zeros((0, 4), np.float32),
}


def test_mapped_tensors_given_back_are_read_again_as_safetensors_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({name: np.asarray(tensor) for name, tensor in TENSORS.items()}, path, {"format": "pt"})
    expected, mapped = load_file(path), MappedTensors(path)
    assert mapped.tensors.keys() == expected.keys()
    for _ in range(2):
        for name, tensor in expected.items():
            assert mapped.tensors[name].dtype == tensor.dtype, name
            assert mapped.tensors[name].shape == tensor.shape, name
            assert np.array_equal(mapped.tensors[name], tensor), name
        mapped.free_pages()


def test_type_that_numpy_does_not_know_is_an_error(tmp_path: Path) -> None:
    head = b'{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"\0\0")
    with pytest.raises(KeyError, match="BF16"):
        MappedTensors(path)


@pytest.mark.parametrize(
    ("weights", "fixed"),
    [
        (Weights("own", "sha256:1", Path("own")), False),
        (Weights("packaged", "sha256:1", Path("packaged"), sha256="1"), True),
        (Weights("hub", "hub@1", Path("1"), "1"), True),
    ],
    ids=lambda value: str(value.name) if isinstance(value, Weights) else "",
)
def test_files_of_a_named_folder_may_change(weights: Weights, fixed: bool) -> None:
    assert weights.is_fixed == fixed
