#!/bin/sh
# Sees to PostgreSQL's server programs, which the tests start for themselves. Installs Debian's where it may.
set -eu

have() {
    command -v initdb >/dev/null 2>&1 && command -v pg_ctl >/dev/null 2>&1 && return 0
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

have && exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    as_root="none"
fi

if [ "$as_root" != none ] && command -v apt-get >/dev/null 2>&1; then
    echo "foretide: installing PostgreSQL for its tests"
    $as_root apt-get update -qq
    # The package would make and start a cluster of its own; the tests bring theirs.
    $as_root apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null
    if [ -f /etc/postgresql-common/createcluster.conf ]; then
        $as_root sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
    fi
    $as_root apt-get install -y -qq --no-install-recommends postgresql >/dev/null
    have && exit 0
fi

echo "foretide: the tests need the server programs of PostgreSQL. Run:" >&2
echo "    sudo apt-get update && sudo apt-get install -y postgresql" >&2
exit 1
