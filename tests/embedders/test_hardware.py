import pytest

from ingestor.embedders import hardware

INTEL = "processor\t: 0\nflags\t\t: fpu avx512f amx_bf16 amx_tile\n\nprocessor\t: 1\nflags\t\t: fpu\n"
AMD = "flags\t\t: fpu avx512_bf16 avx512_vnni\n"
OLD = "flags\t\t: fpu avx2 avx512_vnni\n"
ARM = "Features\t: fp asimd bf16\n"


@pytest.mark.parametrize(
    ("cpuinfo", "expected"), [(INTEL, True), (AMD, True), (OLD, False), (ARM, False), (None, False)]
)
def test_bfloat16(monkeypatch, tmp_path, cpuinfo, expected):
    file = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        file.write_text(cpuinfo)
    monkeypatch.setattr(hardware, "_CPUINFO", file)
    assert hardware.multiplies_bfloat16() is expected


def test_without_a_driver_the_device_is_the_cpu(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "_DRIVER", tmp_path / "none")
    assert hardware.resolve_device("auto") == "cpu"
    assert hardware.resolve_device("cuda:1") == "cuda:1"
