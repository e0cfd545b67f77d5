#!/bin/sh
# Sees to a Java that Spark can run on: 17 or newer. Installs Debian's headless one where it may.
set -eu
needed=17
packages="openjdk-21-jre-headless openjdk-17-jre-headless default-jre-headless"

java_major() {
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    "$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

have() {
    major=$(java_major 2>/dev/null || true)
    [ -n "$major" ] && [ "$major" -ge "$needed" ]
}

have && exit 0

. "$(dirname "$0")/debian.sh"

if may_install; then
    begin_install "a headless Java for Spark"
    for package in $packages; do
        if install_packages "$package" 2>/dev/null; then
            break
        fi
    done
    unset JAVA_HOME
    have && exit 0
fi

echo "foretide: Spark needs Java $needed or newer, found ${major:-none}. Run:" >&2
echo "    sudo apt-get update && sudo apt-get install -y openjdk-17-jre-headless" >&2
exit 1
