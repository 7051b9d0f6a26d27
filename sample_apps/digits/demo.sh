#!/bin/sh
# Builds every bundle that edgekit.toml declares, prints the table of size, accuracy and latency, and writes a report each.
# The bundle for iOS 27 is executed by Apple's own runtime, for which not every system has a wheel.
set -eu
cd "$(dirname "$0")"

edgekit build
if python -c 'import coreai' 2>/dev/null; then
    edgekit package digits_torchscript.onnx --target ios27 --dim batch=1 --quantize int8 --labels labels.txt \
        --data samples/calibration --verify-data samples/test -o bundles/digits-ios27
else
    echo "digits-ios27 is left out: coreai-core has no wheel for this system"
fi
for bundle in bundles/*/; do
    name=$(basename "$bundle")
    edgekit report "$bundle" -o "bundles/$name.html" --quiet
done
echo "bundles and reports: $(pwd)/bundles"
