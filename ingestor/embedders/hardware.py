"""What this machine has, found out without loading torch unless there is an NVIDIA driver."""

from importlib.util import find_spec
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_DRIVER = Path("/proc/driver/nvidia/version")


def resolve_device(wanted: str) -> str:
    """``auto`` is cuda where torch can use it, else cpu."""
    if wanted != "auto":
        return wanted
    if not _DRIVER.exists() or not installed("torch"):
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def installed(*packages: str) -> bool:
    """Whether all of them can be imported; found out without importing them."""
    try:
        return all(find_spec(name) is not None for name in packages)
    except ImportError:  # something forbids it
        return False


def multiplies_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 in hardware.

    MiniLM by torch on one core, texts of 48 / 208 tokens a second, bfloat16 against float32: 307 / 55
    against 90 / 21 with AVX512_BF16 (AMD Zen 5), about 280 / 58 against 90 / 18 with AMX. Without either it
    is far slower.
    """
    return bool({"amx_bf16", "avx512_bf16"} & cpu_flags())


def multiplies_int8() -> bool:
    """Whether the processor has AVX512-VNNI, for which OpenVINO's multiplication in int8 was measured."""
    return "avx512_vnni" in cpu_flags()


def has_amx() -> bool:
    return "amx_bf16" in cpu_flags()


def cpu_flags() -> frozenset[str]:
    """As Linux lists them on x86; empty elsewhere."""
    try:
        text = _CPUINFO.read_text(errors="replace")
    except OSError:
        return frozenset()
    lines = (line.partition(":") for line in text.splitlines())
    return next((frozenset(value.split()) for key, _, value in lines if key.strip() == "flags"), frozenset())
