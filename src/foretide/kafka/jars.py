"""Packages from Maven Central, the broker's above all. Fetched once, by Maven, into a cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from foretide.errors import ConfigError
from foretide.files import cache_directory
from foretide.kafka.errors import KafkaError

__all__ = ["BROKER_PACKAGES", "KAFKA_VERSION", "cache_directory", "fetch", "find_program"]

# Not 4.3: restarted while it ends a transaction, it takes partitions without a leader for deleted, and the transaction
# stays open for ever (docs/reliability.md).
KAFKA_VERSION = "4.2.0"
BROKER_PACKAGES = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4")

# Some packages name further repositories, which may be out of reach; all of them are on Maven Central.
_SETTINGS = """<settings><mirrors><mirror>
<id>central-only</id><mirrorOf>*</mirrorOf><url>https://repo.maven.apache.org/maven2</url>
</mirror></mirrors></settings>
"""
_INSTALL = {
    "java": "install Java 17 or newer, for instance: sudo apt-get install -y openjdk-17-jre-headless",
    "mvn": "install Maven, for instance: sudo apt-get install -y maven",
}


def find_program(name: str, needed_for: str) -> str:
    """Return the path of ``java`` or ``mvn``.

    Raises
    ------
    ConfigError
        When it is not installed, with what to do.
    """
    home = os.environ.get("JAVA_HOME")
    in_home = Path(home) / "bin" / name if home and name == "java" else None
    found = str(in_home) if in_home is not None and in_home.exists() else shutil.which(name)
    if found is None:
        raise ConfigError(needed_for, expected=f"the program {name}", got="none on the PATH", remedy=_INSTALL[name])
    return found


def fetch(packages: Sequence[str], cache: Path | None = None) -> list[Path]:
    """Return the jars of `packages` and of all they need; Maven runs only if they are not in the cache.

    Parameters
    ----------
    packages : sequence of str
        Coordinates, ``group:artifact:version``.
    cache : Path, optional
        Where jars are kept; `cache_directory` by default.

    Raises
    ------
    ConfigError
        When Maven is missing.
    KafkaError
        When Maven cannot get a package.
    """
    place = (
        (cache or cache_directory())
        / "jars"
        / "+".join(package.split(":", 1)[1].replace(":", "-") for package in packages)
    )
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as aside:
            _copy_dependencies(packages, Path(aside))
            # Of two processes that fetch at once, one is first; the other's jars are the same.
            if not place.is_dir():
                (Path(aside) / "jars").rename(place)
    return sorted(place.glob("*.jar"))


def _copy_dependencies(packages: Sequence[str], aside: Path) -> None:
    program = find_program("mvn", "packages from Maven Central")
    (aside / "pom.xml").write_text(pom(packages), encoding="utf-8")
    (aside / "settings.xml").write_text(_SETTINGS, encoding="utf-8")
    command = [program, "-B", "-q", "-gs", str(aside / "settings.xml"), "-f", str(aside / "pom.xml")]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={aside / 'jars'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if "[ERROR]" in line and line.strip() != "[ERROR]"]
        got = lines[0].partition("[ERROR]")[2].strip() if lines else f"exit code {done.returncode}"
        raise KafkaError(
            f"Maven packages {', '.join(packages)}: expected Maven to fetch them, got {got[:500]}; check the network "
            "and ~/.m2/settings.xml, and run the command again"
        )


def pom(packages: Sequence[str]) -> str:
    """Return a project that depends on `packages` and has nothing else.

    >>> "<artifactId>kafka_2.13</artifactId>" in pom(BROKER_PACKAGES)
    True
    """
    parts = []
    for package in packages:
        group, artifact, version = (escape(part) for part in package.split(":"))
        ids = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        parts.append(f"<dependency>{ids}</dependency>")
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>foretide</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{''.join(parts)}</dependencies></project>\n"
    )
