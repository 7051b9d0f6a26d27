#!/bin/sh
# Installs what the tests of the sample apps and of devices run with. A tool that cannot be installed is named, and its tests are skipped.
set -u

missing=""
need() { # command, Debian package
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need chromium chromium
need cmake cmake
need c++ g++
need npm npm
need ssh openssh-client
need adb adb
[ -x /usr/sbin/sshd ] || missing="$missing openssh-server"
[ -f /usr/include/nlohmann/json.hpp ] || missing="$missing nlohmann-json3-dev"
[ -f /usr/include/stb/stb_image.h ] || missing="$missing libstb-dev"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "tools: no apt-get here; tests that need$missing are skipped" >&2
    exit 0
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "tools: installing$missing needs root; tests that need them are skipped" >&2
        exit 0
    fi
    as_root="sudo"
fi
# shellcheck disable=SC2086 # a list of packages
if ! { $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing; } >/dev/null; then
    echo "tools: apt-get could not install$missing; tests that need them are skipped" >&2
fi
