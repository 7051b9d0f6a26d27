#!/bin/sh
# From the Keras network in a package on PyPI to bundles for iOS, Intel and the web, a report each, and a labelled picture.
# Needs h5py: pip install h5py
set -eu
cd "$(dirname "$0")"

python export.py
edgekit build
for bundle in bundles/*/; do
    edgekit report "$bundle" -o "bundles/$(basename "$bundle").html" --quiet
done
python recognize.py bundles/faces-intel-cpu bundles/expressions-intel-cpu fetched/pictures/astronaut.png bundles/astronaut.png
echo "the page: (cd ../web && npm install) && python ../web/serve.py bundles/expressions-web bundles/faces-web --app ."
