#!/bin/sh
# Builds every bundle that edgekit.toml declares, prints the table of size, accuracy and latency, and writes a report each.
set -eu
cd "$(dirname "$0")"

edgekit build
for bundle in bundles/*/; do
    name=$(basename "$bundle")
    edgekit report "$bundle" -o "bundles/$name.html" --quiet
done
echo "bundles and reports: $(pwd)/bundles"
