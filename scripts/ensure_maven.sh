#!/bin/sh
# Sees to Maven, which fetches the packages of the Kafka broker for its tests. Installs Debian's where it may.
set -eu

command -v mvn >/dev/null 2>&1 && exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    as_root="none"
fi

if [ "$as_root" != none ] && command -v apt-get >/dev/null 2>&1; then
    echo "foretide: installing Maven for the Kafka tests"
    $as_root apt-get update -qq
    $as_root apt-get install -y -qq --no-install-recommends maven >/dev/null
    command -v mvn >/dev/null 2>&1 && exit 0
fi

echo "foretide: the Kafka tests need Maven. Run:" >&2
echo "    sudo apt-get update && sudo apt-get install -y maven" >&2
exit 1
