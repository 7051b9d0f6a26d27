#!/bin/sh
# Installs Swift 6 for the tests of the Swift sources: the system's package where it has one, else Debian's in a folder of
# its own, which takes root to use. It is large: 0.5 GB to download, 2.5 GB on the disk.
set -eu

root="${EDGEKIT_SWIFT_ROOT:-$HOME/.cache/edgekit-swift/root}"
if command -v swift >/dev/null 2>&1 || [ -x "$root/usr/bin/swiftc" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ]; then
    echo "swift: there is no Swift here, and installing it takes apt-get and root; its tests are skipped" >&2
    exit 0
fi
if apt-cache show swiftlang >/dev/null 2>&1; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq swiftlang >/dev/null
    exit 0
fi
command -v debootstrap >/dev/null 2>&1 || {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
}
unfinished="$root.unfinished"
rm -rf "$unfinished"
mkdir -p "$(dirname "$root")"
debootstrap --variant=minbase --include=swiftlang,libstdc++-14-dev,libc6-dev \
    trixie "$unfinished" ${EDGEKIT_DEBIAN_MIRROR:+"$EDGEKIT_DEBIAN_MIRROR"} >"$root.log" 2>&1 || {
    tail -n 5 "$root.log" >&2
    echo "swift: Debian's packages cannot be installed; its tests are skipped" >&2
    rm -rf "$unfinished"
    exit 0
}
rm -rf "$unfinished/var/cache/apt" "$unfinished/var/lib/apt/lists"
mv "$unfinished" "$root"
