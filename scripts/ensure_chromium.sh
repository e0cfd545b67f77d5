#!/bin/sh
# Sees to Chromium and its driver, which the dashboard's tests need. Installs Debian's where it may.
set -eu
packages="chromium chromium-driver"

have() {
    command -v chromium >/dev/null 2>&1 && command -v chromedriver >/dev/null 2>&1
}

have && exit 0

. "$(dirname "$0")/debian.sh"

if may_install; then
    begin_install "Chromium for the dashboard's tests"
    install_packages $packages 2>/dev/null || true
    have && exit 0
fi

echo "foretide: the dashboard's tests need Chromium and its driver. Run:" >&2
echo "    sudo apt-get update && sudo apt-get install -y $packages" >&2
# Without them the tests are skipped, and fail where the environment variable CI is set.
[ -n "${CI:-}" ] && exit 1
exit 0
