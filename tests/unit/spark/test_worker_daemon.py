from __future__ import annotations

import socket

import pytest

pyspark = pytest.importorskip("pyspark")

from pyspark import daemon  # noqa: E402

from foretide.spark.pool.daemon import leave_quietly  # noqa: E402


def test_a_worker_that_spark_has_hung_up_on_ends_without_a_traceback() -> None:
    ours, sparks = socket.socketpair()
    sparks.close()

    def worker(sock: socket.socket, authenticated: bool) -> int:
        sock.sendall(b"what was left to say")
        return 0

    # Any status but 0 ends the process, once the connection is closed on the other side.
    assert leave_quietly(worker)(ours, True) == 1
    ours.close()


def test_a_worker_that_is_heard_goes_on() -> None:
    ours, sparks = socket.socketpair()

    def worker(sock: socket.socket, authenticated: bool) -> int:
        sock.sendall(b"done")
        return 0

    assert leave_quietly(worker)(ours, True) == 0 and sparks.recv(4) == b"done"
    ours.close()
    sparks.close()


def test_other_errors_are_told() -> None:
    def worker(sock: object, authenticated: bool) -> int:
        raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        leave_quietly(worker)(None, False)


def test_the_daemon_of_pyspark_calls_its_worker_by_name() -> None:
    # What the module replaces; another PySpark may do it in another way.
    assert "worker" in daemon.manager.__code__.co_names and callable(daemon.worker)
