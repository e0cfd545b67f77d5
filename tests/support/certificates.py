"""Certificates of the tests' own: an authority, and a server on loopback that it vouches for."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Certificates"]


@dataclass(frozen=True)
class Certificates:
    """Files of an authority and of a server, made by openssl.

    Parameters
    ----------
    folder : Path
        Where they are.
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        """Make them in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder)
        request, extension = folder / "server.csr", folder / "server.ext"
        extension.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        new = ["req", "-newkey", "rsa:2048", "-nodes"]
        authority = folder / "ca.key"
        places = ["-keyout", str(authority), "-out", str(made.authority)]
        _openssl(*new, "-x509", "-days", "2", "-subj", "/CN=test", *places)
        _openssl(*new, "-subj", "/CN=localhost", "-keyout", str(made.key), "-out", str(request))
        by = ["-CA", str(made.authority), "-CAkey", str(authority), "-CAcreateserial", "-extfile", str(extension)]
        _openssl("x509", "-req", "-days", "2", "-in", str(request), *by, "-out", str(made.certificate))
        made.both.write_text(made.key.read_text() + made.certificate.read_text())
        return made

    @property
    def authority(self) -> Path:
        """Whom clients trust."""
        return self.folder / "ca.crt"

    @property
    def key(self) -> Path:
        """The server's key."""
        return self.folder / "server.key"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.folder / "server.crt"

    @property
    def both(self) -> Path:
        """Key and certificate in one file."""
        return self.folder / "server.pem"


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
