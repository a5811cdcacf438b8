"""Pooling: the vectors of a text's tokens become the vector of the text, in float32. Pure.

Each text is reduced by itself, over its own tokens alone, and no BLAS is called: BLAS may add in another
order for another number of rows or threads. So a vector stays a function of its text alone.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def pool(tokens: Floats, modes: Sequence[str]) -> Floats:
    """(tokens, width) of one text without padding -> (width * modes,)."""
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
            raise ValueError(f"unknown pooling {mode!r}")
    return vector


def project(vector: Floats, weight: Floats, bias: Floats | None, activation: str) -> Floats:
    """(in,) by a dense layer of (out, in) -> (out,)."""
    result: Floats = np.einsum("oi,i->o", weight, vector)
    if bias is not None:
        result = result + bias
    return np.tanh(result) if activation == "Tanh" else result
