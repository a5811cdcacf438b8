"""Ways to run a model: engine, precision and device, here or on another machine.

``auto`` leaves a choice to the machine. What it came to is part of the embedder's identity.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ingestor.embedders.hardware import (
    gains_from_avx512_bfloat16,
    has_amx,
    is_installed,
    multiplies_bfloat16,
    multiplies_int8,
    resolve_device,
)
from ingestor.embedders.outline import NotCovered, outline
from ingestor.ports import NeedsHuman

_NO_TORCH = "torch and sentence-transformers are not installed: pip install 'chroma-ingestor[torch]'"
_NO_BFLOAT16 = "this processor has neither AMX nor AVX512-BF16 for bfloat16"
_NO_INT8 = "this processor has no AVX512-VNNI for int8"


@dataclass(frozen=True, slots=True)
class Way:
    """``missing``: why it is not for this machine; "" if it is."""

    engine: str
    precision: str
    device: str
    missing: str = ""


def choose_way(ways: list[Way], model: str) -> Way:
    """Return the first way that this machine can run. Raises NeedsHuman with the reasons if there is none."""
    here = next((way for way in ways if not way.missing), None)
    if here is None:
        reasons = dict.fromkeys(way.missing for way in ways if way.device == ways[0].device)
        raise NeedsHuman(f"embedding model {model!r} cannot run here: {'; '.join(reasons)}")
    return here


def ways(engine: str, precision: str, device: str, folder: Path) -> Iterator[Way]:
    """Yield all ways that these options stand for, on any machine; the fastest first."""
    best = resolve_device(device)
    refused = "" if engine == "torch" else _check_openvino(folder)
    for place in dict.fromkeys((best, "cpu", "cuda")) if device == "auto" else (best,):
        absent = "" if place in (best, "cpu") else f"the model has no {place}"
        for each in ("openvino", "torch") if engine == "auto" else (engine,):
            why = absent or _find_missing(each, place, refused)
            for one in _precisions(precision, place, each):
                yield Way(each, one, place, why or _unfit(each, one, place, precision))


def _precisions(wanted: str, device: str, engine: str) -> tuple[str, ...]:
    """The fastest first. torch must not use AMX (torch_model.py)."""
    if wanted != "auto":
        return (wanted,)
    if device != "cpu":
        return ("float32",)
    if engine == "torch":
        return ("bfloat16", "float32") if gains_from_avx512_bfloat16() else ("float32", "bfloat16")
    if gains_from_avx512_bfloat16() or has_amx():
        return ("bfloat16", "int8", "float32")
    return ("int8", "float32", "bfloat16")


def _check_openvino(folder: Path) -> str:
    try:
        outline(folder)
    except NotCovered as error:
        return f"engine openvino does not cover this model ({error})"
    return ""


def _find_missing(engine: str, device: str, refused: str) -> str:
    if engine == "torch":
        return "" if is_installed("torch", "sentence_transformers") else _NO_TORCH
    if device != "cpu":
        return f"engine openvino runs on the cpu, not on {device}"
    return refused or ("" if is_installed("openvino") else "openvino is not installed")


def _unfit(engine: str, precision: str, device: str, wanted: str) -> str:
    """bfloat16 is emulated by torch where the processor lacks it: slow, and only if it is asked for."""
    if precision == "int8":
        return "int8 needs engine openvino" if engine == "torch" else "" if multiplies_int8() else _NO_INT8
    asked = wanted != "auto" and engine == "torch"
    emulated = (precision, device) == ("bfloat16", "cpu") and not multiplies_bfloat16()
    return _NO_BFLOAT16 if emulated and not asked else ""
