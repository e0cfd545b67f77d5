"""Faults: what may happen to a run at any time."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import psutil
from scene import Scene

__all__ = ["FAULTS", "strike"]

Fault = Callable[[Scene, random.Random], bool]


def _choose(found: list[psutil.Process], numbers: random.Random) -> psutil.Process | None:
    return numbers.choice(sorted(found, key=lambda process: process.pid)) if found else None


def _kill(process: psutil.Process | None) -> bool:
    if process is None:
        return False
    with suppress(psutil.NoSuchProcess):
        process.kill()
        return True
    return False


def _pause(process: psutil.Process | None, numbers: random.Random) -> bool:
    if process is None:
        return False
    seconds = numbers.uniform(0.3, 3.0)
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            process.send_signal(signal.SIGCONT)
        return True
    return False


def kill_worker(scene: Scene, numbers: random.Random) -> bool:
    """Kill a Python worker."""
    return _kill(_choose(scene.workers(), numbers))


def pause_worker(scene: Scene, numbers: random.Random) -> bool:
    """Let a Python worker rest; what it does then may be done by another already."""
    return _pause(_choose(scene.workers(), numbers), numbers)


def kill_executor(scene: Scene, numbers: random.Random) -> bool:
    """Kill an executor, and its workers with it."""
    return _kill(_choose(scene.processes("CoarseGrainedExecutorBackend"), numbers))


def pause_executor(scene: Scene, numbers: random.Random) -> bool:
    """Let an executor's virtual machine rest."""
    return _pause(_choose(scene.processes("CoarseGrainedExecutorBackend"), numbers), numbers)


def kill_driver(scene: Scene, numbers: random.Random) -> bool:
    """Kill the driver, and start it again."""
    scene.kill_driver()
    scene.start_driver()
    time.sleep(numbers.uniform(4.0, 12.0))
    return True


def pause_driver(scene: Scene, numbers: random.Random) -> bool:
    """Let the driver's Python process rest, and with it its control."""
    return _pause(scene.driver, numbers)


def kill_controller(scene: Scene, numbers: random.Random) -> bool:
    """Kill the controller; the run goes on with its last plan, and another controller starts."""
    return _kill(scene.controller.process)


def pause_controller(scene: Scene, numbers: random.Random) -> bool:
    """Let the controller rest; what it goes on with then is old."""
    return _pause(scene.controller.process, numbers)


def start_second_driver(scene: Scene, numbers: random.Random) -> bool:
    """Start a second driver on the run; the first one has to give way."""
    scene.start_second_driver()
    return True


def kill_broker(scene: Scene, numbers: random.Random) -> bool:
    """Kill the broker, and start it again."""
    scene.broker.stop(kill=True)
    time.sleep(numbers.uniform(0.0, 2.0))
    scene.broker.start()
    return True


def pause_broker(scene: Scene, numbers: random.Random) -> bool:
    """Let the broker rest."""
    return _pause(scene.broker_process, numbers)


def crash_database(scene: Scene, numbers: random.Random) -> bool:
    """Let the database crash, and start it again."""
    with scene.database.down("immediate"):
        time.sleep(numbers.uniform(0.0, 2.0))
    return True


def restart_database(scene: Scene, numbers: random.Random) -> bool:
    """Restart the database; connections are closed, transactions rolled back."""
    scene.database.restart("fast")
    return True


def restart_s3(scene: Scene, numbers: random.Random) -> bool:
    """Stop the object store, and start it again."""
    if scene.s3 is None:
        return False
    scene.s3.stop()
    time.sleep(numbers.uniform(0.0, 1.0))
    scene.s3.start()
    return True


def _proxy_mode(mode: str) -> Fault:
    def strike(scene: Scene, numbers: random.Random) -> bool:
        if scene.proxy is None:
            return False
        scene.proxy.mode = mode
        time.sleep(numbers.uniform(0.3, 3.0))
        scene.proxy.mode = "pass"
        return True

    return strike


def fill_disk(scene: Scene, numbers: random.Random) -> bool:
    """Let the disk of the run's files be full for a while."""
    if not scene.has_own_disk:
        return False
    scene.fill_disk()
    time.sleep(numbers.uniform(0.3, 3.0))
    scene.free_disk()
    return True


def jump(scene: Scene, numbers: random.Random) -> bool:
    """Let the clock jump by up to ten minutes, forward or back, and after a while be right again."""
    scene.set_clock(numbers.uniform(-600.0, 600.0))
    time.sleep(numbers.uniform(0.3, 5.0))
    scene.set_clock(0.0)
    return True


#: By name, with how often each happens in proportion to the others.
FAULTS: dict[str, tuple[int, Fault]] = {
    "worker killed": (24, kill_worker),
    "worker paused": (10, pause_worker),
    "executor killed": (6, kill_executor),
    "executor paused": (6, pause_executor),
    "driver killed": (4, kill_driver),
    "driver paused": (6, pause_driver),
    "controller killed": (5, kill_controller),
    "controller paused": (5, pause_controller),
    "second driver": (3, start_second_driver),
    "broker killed": (4, kill_broker),
    "broker paused": (6, pause_broker),
    "database crashed": (5, crash_database),
    "database restarted": (5, restart_database),
    "object store restarted": (4, restart_s3),
    "object store hangs": (5, _proxy_mode("hang")),
    "object store cuts answers": (5, _proxy_mode("cut")),
    "object store unavailable": (5, _proxy_mode("unavailable")),
    "disk full": (4, fill_disk),
    "clock jumps": (5, jump),
}


def strike(scene: Scene, numbers: random.Random) -> str:
    """Let one thing go wrong, and return what; a kind that has nothing to befall here gives way to another."""
    names, weights = list(FAULTS), [weight for weight, _ in FAULTS.values()]
    while True:
        [name] = numbers.choices(names, weights)
        if FAULTS[name][1](scene, numbers):
            return name
        time.sleep(0.1)
