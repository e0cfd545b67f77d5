"""What a HotSpot JVM publishes about itself in a small file: heap, garbage collection, threads, classes.

Java's own tools (jstat, jps) read the same file, ``hsperfdata_USER/PID`` in the directory for temporary files. Reading
it costs the JVM nothing and needs no agent in it.
"""

from __future__ import annotations

import struct

__all__ = ["jvm_counters", "parse_hsperf"]

_MAGIC = b"\xca\xfe\xc0\xc0"
_LONG, _BYTE = ord("J"), ord("B")
_TICKS = "sun.os.hrt.frequency"
_NS = 1e9


def parse_hsperf(data: bytes) -> dict[str, float]:
    """Return the numbers in the file by name; empty if it is not such a file, or of another version.

    >>> parse_hsperf(b"something else")
    {}
    """
    if len(data) < 32 or data[:4] != _MAGIC or data[5] != 2:
        return {}
    order = "<" if data[4] == 1 else ">"
    start, entries = struct.unpack_from(f"{order}ii", data, 24)
    found: dict[str, float] = {}
    for _ in range(max(0, entries)):
        if not 0 < start <= len(data) - 20:
            break
        length, name_at, size, kind, _, _, _, value_at = struct.unpack_from(f"{order}iiiBBBBi", data, start)
        if length <= 0 or start + length > len(data):
            break
        if kind == _LONG and size == 0 and value_at + 8 <= length:
            end = data.find(b"\0", start + name_at, start + length)
            name = data[start + name_at : max(end, start + name_at)].decode("ascii", "replace")
            found[name] = float(struct.unpack_from(f"{order}q", data, start + value_at)[0])
        start += length
    return found


def jvm_counters(perf: dict[str, float]) -> dict[str, float]:
    """Return what features need of the numbers that a JVM publishes, sizes in bytes, times in seconds.

    >>> perf = {"sun.gc.generation.0.space.0.used": 10.0, "sun.gc.generation.1.space.0.used": 5.0}
    >>> jvm_counters(perf | {"sun.os.hrt.frequency": 1e9, "sun.gc.collector.0.time": 2e9})
    {'jvm.heap_used': 15.0, 'jvm.gc_s': 2.0}
    """
    found: dict[str, float] = {}
    spaces = "sun.gc.generation.", ".space."
    _add(found, "jvm.heap_used", _picked(perf, *spaces, ".used"))
    _add(found, "jvm.heap_committed", _picked(perf, *spaces, ".capacity"))
    _add(found, "jvm.nonheap_used", _picked(perf, "sun.gc.metaspace", "", ".used"))
    ticks = perf.get(_TICKS, _NS)
    _add(found, "jvm.gc_s", [value / ticks for value in _picked(perf, "sun.gc.collector.", "", ".time")])
    _add(found, "jvm.gc_count", _picked(perf, "sun.gc.collector.", "", ".invocations"))
    for name, of in {"jvm.threads": "java.threads.live", "jvm.classes": "java.cls.loadedClasses"}.items():
        if of in perf:
            found[name] = perf[of]
    return found


def _picked(perf: dict[str, float], start: str, inside: str, end: str) -> list[float]:
    return [value for name, value in perf.items() if name.startswith(start) and inside in name and name.endswith(end)]


def _add(found: dict[str, float], name: str, values: list[float]) -> None:
    if values:
        found[name] = sum(values)
