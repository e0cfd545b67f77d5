#!/bin/sh
# Python for the processes that Spark starts, without what Spark puts in front of PYTHONPATH: its own archives, from
# which every process would compile PySpark anew, where the interpreter has the same PySpark installed with bytecode.
set -f
IFS=:
kept=
for place in $PYTHONPATH; do
    case $place in
    "${SPARK_HOME:-/nowhere}"/*) ;;
    *) kept=$kept${kept:+:}$place ;;
    esac
done
PYTHONPATH=$kept
export PYTHONPATH
exec "$FORETIDE_PYTHON" "$@"
