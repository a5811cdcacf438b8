"""Hardware of this machine, detected without loading torch unless there is an NVIDIA driver."""

from importlib.util import find_spec
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_DRIVER = Path("/proc/driver/nvidia/version")


def resolve_device(wanted: str) -> str:
    """``auto`` is cuda where torch can use it, else cpu."""
    if wanted != "auto":
        return wanted
    if not _DRIVER.exists() or not is_installed("torch"):
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def is_installed(*packages: str) -> bool:
    """Whether all packages can be imported, without importing them."""
    try:
        return all(find_spec(name) is not None for name in packages)
    except ImportError:  # something forbids it
        return False


def multiplies_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 in hardware."""
    return has_amx() or "avx512_bf16" in cpu_flags()


def gains_from_avx512_bfloat16() -> bool:
    """Whether AVX512-BF16 is faster than float32.

    Intel's processors multiply bfloat16 by it at half the rate of instructions. MiniLM by torch on one core,
    texts of 48 / 208 tokens a second, bfloat16 against float32: 43 / 11 against 68 / 16 (Xeon of the fifth
    generation whose AMX the virtual machine hides), 307 / 55 against 90 / 21 (AMD Zen 5).
    """
    return "avx512_bf16" in cpu_flags() and processor().get("vendor_id") != "GenuineIntel"


def multiplies_int8() -> bool:
    """Whether the processor has AVX512-VNNI, for which OpenVINO's multiplication in int8 was measured."""
    return "avx512_vnni" in cpu_flags()


def has_amx() -> bool:
    return "amx_bf16" in cpu_flags()


def cpu_flags() -> frozenset[str]:
    """Return the processor's flags as Linux lists them on x86; empty elsewhere."""
    return frozenset(processor().get("flags", "").split())


def processor() -> dict[str, str]:
    """Return Linux's facts about the first processor; empty if Linux lists none."""
    try:
        first = _CPUINFO.read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    parts = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in parts}
