#!/bin/sh
# Sees to Maven, which fetches the packages of the Kafka broker for its tests. Installs Debian's where it may.
set -eu

command -v mvn >/dev/null 2>&1 && exit 0

. "$(dirname "$0")/debian.sh"

if may_install; then
    begin_install "Maven for the Kafka tests"
    install_packages maven
    command -v mvn >/dev/null 2>&1 && exit 0
fi

echo "foretide: the Kafka tests need Maven. Run:" >&2
echo "    sudo apt-get update && sudo apt-get install -y maven" >&2
exit 1
