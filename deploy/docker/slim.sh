#!/bin/sh
# Takes out of an environment what its packages ask for and this program never loads.
#   slim.sh ENVIRONMENT
set -eu
python="$1/bin/python"
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# Chroma's own embedder, and its memberlist in a cluster.
"$python" -m pip uninstall --quiet --yes kubernetes onnxruntime
# OpenVINO for GPUs and NPUs, whose drivers the image lacks; its readers of other programs' models.
cd "$packages/openvino/libs"
rm -f libopenvino_intel_gpu_plugin.so libopenvino_intel_npu_plugin.so cache.json
for reader in onnx tensorflow tensorflow_lite pytorch paddle jax gguf; do
    rm -f "libopenvino_${reader}_frontend.so"*
done
# What packages bring for their own developers: tests, headers, static libraries, type stubs.
find "$packages" -depth -type d \( -name tests -o -name test \) -exec rm -rf {} +
find "$packages" -type f \( -name '*.h' -o -name '*.hpp' -o -name '*.a' -o -name '*.pyi' \) -delete
# Last, since it goes by itself.
"$python" -m pip uninstall --quiet --yes setuptools pip
