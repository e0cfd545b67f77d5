#!/bin/sh
# Usage: make_venv.sh DIRECTORY EXTRAS. Makes a virtual environment with the package and its extras in it.
set -eu
venv=$1
extras=$2
python=${PYTHON:-python3}

fail() {
    echo "foretide: $1" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 || fail "no '$python' found; install Python 3.11 or newer, or run: make PYTHON=/path/to/python3.11"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "Python 3.11 or newer is needed, '$python' is $("$python" -V 2>&1); run: make PYTHON=python3.11"

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq && apt-get install -y -qq --no-install-recommends "$package" >/dev/null
    else
        fail "Python's venv module is missing; run: sudo apt-get install -y $package"
    fi
fi

echo "foretide: installing into $venv (a few minutes the first time)"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[$extras]"
# Compiled once, here, the numerical code is ready in the first run, and in all processes of the tests.
"$venv/bin/foretide" warm-up
