#!/bin/sh
# Usage: check_wheel.sh [DIRECTORY]. Checks the wheel and the source distribution in DIRECTORY (dist): what is in them,
# and that a clean virtual environment far from this checkout runs the wheel's commands and serves its dashboard.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
dist=$(cd "${1:-$root/dist}" && pwd)
python=${PYTHON:-$root/.venv/bin/python}
work=$(mktemp -d)
server=""

finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT INT TERM

say() { echo "foretide: $1"; }
fail() {
    echo "foretide: $1" >&2
    exit 1
}

wheel=$(ls -t "$dist"/foretide-*.whl 2>/dev/null | head -n 1)
sdist=$(ls -t "$dist"/foretide-*.tar.gz 2>/dev/null | head -n 1)
[ -n "$wheel" ] && [ -n "$sdist" ] || fail "no wheel and source distribution in $dist; run: make dist"

say "what is in $(basename "$wheel") and $(basename "$sdist")"
"$python" "$root/scripts/check_contents.py" "$root" "$wheel" "$sdist"

say "a clean environment (a few minutes where nothing is cached)"
"$python" -m venv "$work/venv"
pip="$work/venv/bin/python -m pip --quiet --disable-pip-version-check"
$pip install --constraint "$root/constraints.txt" "$wheel"
# Nothing of the checkout is to be found from here, and no store of the user's is touched.
cd "$work"
export PYTHONPATH= FORETIDE_STORE="$work/runs.db" FORETIDE_TOKEN= HOME="$work" NO_COLOR=1
foretide="$work/venv/bin/foretide"

expect() { # expect WORD COMMAND...: the command succeeds, and what it prints has the word in it
    word=$1
    shift
    "$@" >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "failed: $*"; }
    grep -q -- "$word" "$work/out" || { cat "$work/out" >&2; fail "expected '$word' from: $*"; }
    say "ok: $(basename "$1") $(shift; echo "$*" | cut -c 1-60)"
}

expect "Usage" "$foretide" --help
expect "$work/venv" "$work/venv/bin/python" -c "import foretide; print(foretide.__file__, foretide.__version__)"
expect "kernels" "$foretide" warm-up
expect "replicas" "$foretide" demo
expect "pasps" "$foretide" planners
expect "saved" "$foretide" simulate pasps --trace pasps_logs --policy pasps --forecaster lr --td 30 --json "$work/out.json"
refuse() { # refuse EXTRA COMMAND...: the command fails, and names the extra that it lacks
    extra=$1
    shift
    if "$@" >"$work/out" 2>&1; then fail "ran without the extra $extra: $*"; fi
    grep -q "foretide\[$extra\]" "$work/out" || { cat "$work/out" >&2; fail "expected the extra $extra to be named by: $*"; }
    say "ok: names the extra $extra"
}
refuse service "$foretide" serve
refuse spark "$foretide" apps

$pip install --constraint "$root/constraints.txt" "$wheel[service,spark]"
expect "twitter-classification" "$foretide" apps
"$foretide" serve --port 0 2>"$work/serve" &
server=$!
for _ in $(seq 100); do
    url=$(sed -n 's/^dashboard  *//p' "$work/serve")
    [ -n "$url" ] && break
    sleep 0.2
done
[ -n "$url" ] || fail "foretide serve did not start: $(cat "$work/serve")"
cat >"$work/fetch.py" <<'END'
import re
import sys
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import urlopen

import foretide.service

base = sys.argv[1]
page = urlopen(base, timeout=30).read().decode()
static = Path(foretide.service.__file__).parent / "static"
parts = {*re.findall(r'(?:src|href)="([^"#:]+)"', page), *(f"static/{path.name}" for path in static.iterdir())}
for part in sorted(parts):
    urlopen(urljoin(base, part), timeout=30).read()
up = "foretide_store_up 1.0" in urlopen(urljoin(base, "metrics"), timeout=30).read().decode()
print(f"dashboard: {len(parts)} files; metrics: {up}")
END
expect "metrics: True" "$work/venv/bin/python" "$work/fetch.py" "$url"
cat "$work/out"
say "the wheel works"
