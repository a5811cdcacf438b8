import pytest

from ingestor.embedders import engines

INTEL = "vendor_id\t: GenuineIntel\nflags\t\t: fpu amx_bf16 amx_tile\n\nprocessor\t: 1\nflags\t\t: fpu\n"
XEON = "vendor_id\t: GenuineIntel\nflags\t\t: fpu avx512_bf16 avx512_vnni\n"
AMD = "vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx512_bf16 avx512_vnni\n"
OLD = "flags\t\t: fpu avx2 avx512_vnni\n"
ARM = "Features\t: fp asimd bf16\n"


@pytest.mark.parametrize(
    ("cpuinfo", "multiplies", "gains"),
    [
        (INTEL, True, False),
        (XEON, True, False),
        (AMD, True, True),
        (OLD, False, False),
        (ARM, False, False),
        (None, False, False),
    ],
)
def test_bfloat16_support_follows_from_cpuinfo(monkeypatch, tmp_path, cpuinfo, multiplies, gains):
    file = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        file.write_text(cpuinfo)
    monkeypatch.setattr(engines, "_CPUINFO", file)
    assert engines.multiplies_bfloat16() is multiplies
    assert engines.gains_from_avx512_bfloat16() is gains


def test_device_without_driver_is_cpu(monkeypatch, tmp_path):
    monkeypatch.setattr(engines, "_DRIVER", tmp_path / "none")
    assert engines.resolve_device("auto") == "cpu"
    assert engines.resolve_device("cuda:1") == "cuda:1"
