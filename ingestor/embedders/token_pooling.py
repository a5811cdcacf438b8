"""From the vectors of a text's tokens to the vector of the text, in float32. Pure.

Each text is reduced by itself, over its own tokens alone, and no BLAS is called: BLAS may add in another
order for another number of rows or threads. So a vector stays a function of its text alone.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def pooled(tokens: Floats, modes: Sequence[str]) -> Floats:
    """(tokens, width) of one text without padding -> (width * modes,)."""
    return np.concatenate([_pooled(tokens, mode) for mode in modes])


def _pooled(tokens: Floats, mode: str) -> Floats:
    found: Floats
    match mode:
        case "cls":
            found = tokens[0]
        case "lasttoken":
            found = tokens[-1]
        case "max":
            found = tokens.max(axis=0)
        case "mean":
            found = tokens.sum(axis=0) / np.float32(len(tokens))
        case "mean_sqrt_len_tokens":
            found = tokens.sum(axis=0) / np.sqrt(np.float32(len(tokens)))
        case "weightedmean":
            weights = np.arange(1, len(tokens) + 1, dtype=np.float32)[:, None]
            found = (tokens * weights).sum(axis=0) / weights.sum()
        case _:
            raise ValueError(f"unknown pooling {mode!r}")
    return found


def projected(vector: Floats, weight: Floats, bias: Floats | None, activation: str) -> Floats:
    """(in,) by a dense layer of (out, in) -> (out,)."""
    found: Floats = np.einsum("oi,i->o", weight, vector)
    if bias is not None:
        found = found + bias
    return np.tanh(found) if activation == "Tanh" else found
