#!/bin/sh
# From the network on PyPI to bundles for iOS, Intel and the web, a report each, and an enlarged picture.
set -eu
cd "$(dirname "$0")"

python fetch.py
edgekit build
for bundle in bundles/*/; do
    edgekit report "$bundle" -o "bundles/$(basename "$bundle").html" --quiet
done
python upscale.py bundles/espcn-intel-cpu fetched/small/astronaut.png bundles/astronaut.png
echo "the page: (cd ../web && npm install) && python ../web/serve.py bundles/espcn-web --app ."
