"""Decompression of event logs: the formats in which Spark writes them, and gzip.

Every function yields bytes as far as there are any, and raises `EOFError` where a file ends too early.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

from foretide.extras import needs_extra

__all__ = ["CODECS", "UNREADABLE", "chunks"]

_CHUNK = 1 << 16
_LZ4_MAGIC, _LZ4_HEADER = b"LZ4Block", struct.Struct("<8sBiiI")
_LZ4_STORED = 0x10
_SNAPPY_MAGIC, _SNAPPY_HEADER = b"\x82SNAPPY\x00", 16


def chunks(file: IO[bytes], codec: str | None) -> Iterator[bytes]:
    """Yield the content of a file, piece by piece.

    Parameters
    ----------
    file : binary file
        The file.
    codec : str, optional
        One of `CODECS`; None for a file that is not compressed.
    """
    return _plain(file) if codec is None else CODECS[codec](file)


def _plain(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_CHUNK):
        yield piece


def _gzip(file: IO[bytes]) -> Iterator[bytes]:
    decoder = zlib.decompressobj(wbits=31)
    while piece := file.read(_CHUNK):
        while piece:
            yield decoder.decompress(piece)
            piece = decoder.unused_data
            if decoder.eof and piece:  # several members, one after another
                decoder = zlib.decompressobj(wbits=31)
    if not decoder.eof:
        raise EOFError("the last member has no end")


def _zstd(file: IO[bytes]) -> Iterator[bytes]:
    arrow = _arrow()
    stream = arrow.CompressedInputStream(arrow.PythonFile(file, mode="r"), "zstd")
    while True:
        try:
            # Little at a time: what is read together with the end of a frame that has none is lost.
            piece = stream.read(4096)
        except OSError as error:
            raise EOFError(str(error)) from error
        if not piece:
            return
        yield piece


def _lz4(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the blocks of lz4-java's own framing, which is not that of the lz4 command."""
    arrow = _arrow()
    while head := file.read(_LZ4_HEADER.size):
        if len(head) < _LZ4_HEADER.size:
            raise EOFError("a block has no head")
        magic, token, packed, size, _ = _LZ4_HEADER.unpack(head)
        if magic != _LZ4_MAGIC:
            raise ValueError("no block of lz4-java")
        body = _exactly(file, packed)
        if size:
            yield body if token & 0xF0 == _LZ4_STORED else bytes(arrow.decompress(body, size, codec="lz4_raw"))


def _snappy(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the blocks of snappy-java's own framing."""
    arrow = _arrow()
    head = file.read(_SNAPPY_HEADER)
    if not head.startswith(_SNAPPY_MAGIC):
        raise ValueError("no stream of snappy-java")
    while length := file.read(4):
        if length == _SNAPPY_MAGIC[:4]:  # a stream that goes on in another one
            file.read(_SNAPPY_HEADER - 4)
            continue
        if len(length) < 4:
            raise EOFError("a block has no length")
        body = _exactly(file, int.from_bytes(length, "big"))
        yield bytes(arrow.decompress(body, _varint(body), codec="snappy"))


def _exactly(file: IO[bytes], count: int) -> bytes:
    body = file.read(count)
    if len(body) < count:
        raise EOFError(f"a block ends after {len(body)} of {count} bytes")
    return body


def _varint(body: bytes) -> int:
    """Return the number at the beginning of a block, seven bits a byte.

    >>> _varint(bytes([0b10101100, 0b10]))
    300
    """
    found = 0
    for place, byte in enumerate(body[:5]):
        found |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return found
    raise ValueError("no length in a block")


def _arrow() -> Any:
    with needs_extra("spark", "a compressed event log (or decompress it first, such as with zstd -d)"):
        import pyarrow

    return pyarrow


#: By the ending of a log's name: what yields its content.
CODECS: dict[str, Callable[[IO[bytes]], Iterator[bytes]]] = {
    "gz": _gzip,
    "zstd": _zstd,
    "zst": _zstd,
    "lz4": _lz4,
    "snappy": _snappy,
}
#: Endings of formats that nothing at hand can read.
UNREADABLE = ("lzf",)
