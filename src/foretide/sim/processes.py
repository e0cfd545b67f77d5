"""One function on many items, side by side in separate processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["call_each"]

# One thread each, since the processes already share the cores.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Item = TypeVar("Item")
Result = TypeVar("Result")


def call_each(
    function: Callable[[Item], Result], items: Sequence[Item], processes: int
) -> Generator[tuple[int, Result], None, None]:
    """Yield the number of each item and what `function` returns for it, as calls finish.

    With one process or one item, calls are made in this process. Whatever ends the generator early (Ctrl-C, a call
    that fails, `close`) ends the processes too; a call in progress is not waited for.
    """
    if processes < 2 or len(items) < 2:
        yield from enumerate(map(function, items))
        return
    # Fresh processes: forking one in which numba or BLAS threads run can hang.
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    with _single_threads(), ProcessPoolExecutor(min(processes, len(items)), context, _begin) as pool:
        running: dict[Future[Result], int] = {pool.submit(function, item): at for at, item in enumerate(items)}
        try:
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()
        except BaseException:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            pool.shutdown(cancel_futures=True)
            raise


def _begin() -> None:
    """Set up a worker process: Ctrl-C is handled by the parent, and the worker ends when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="foretide-parent", daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the parent process to end, however it does, and end too."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _single_threads() -> Iterator[None]:
    """Let processes started within the block compute on one thread each, since together they share the cores."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update({name: "1" for name, value in before.items() if value is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
