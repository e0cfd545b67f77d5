#!/bin/sh
# Sees to PostgreSQL's server programs, which the tests start for themselves. Installs Debian's where it may.
set -eu

have() {
    command -v initdb >/dev/null 2>&1 && command -v pg_ctl >/dev/null 2>&1 && return 0
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

have && exit 0

. "$(dirname "$0")/debian.sh"

if may_install; then
    begin_install "PostgreSQL for its tests"
    # The package would make and start a cluster of its own; the tests bring theirs.
    install_packages postgresql-common
    if [ -f /etc/postgresql-common/createcluster.conf ]; then
        $as_root sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
    fi
    install_packages postgresql
    have && exit 0
fi

echo "foretide: the tests need the server programs of PostgreSQL. Run:" >&2
echo "    sudo apt-get update && sudo apt-get install -y postgresql" >&2
exit 1
