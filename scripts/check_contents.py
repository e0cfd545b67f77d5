"""Checks what is in a wheel and a source distribution. Usage: check_contents.py ROOT WHEEL SDIST."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

# What a source distribution must have beside the package.
KEPT = ("LICENSE", "README.md", "CHANGELOG.md", "Makefile", "constraints.txt", "pyproject.toml", "tests/conftest.py")
UNWANTED = ("__pycache__", ".pyc", ".nbi", ".nbc", ".venv")


def main() -> int:
    """Print what is wrong, and return how many things are."""
    root, wheel, sdist = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    source = root / "src" / "foretide"
    files = {f"foretide/{path.relative_to(source).as_posix()}" for path in source.rglob("*") if path.is_file()}
    wanted = {name for name in files if not any(part in name for part in UNWANTED)}
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    version: dict[str, str] = {}
    exec((source / "_version.py").read_text(encoding="utf-8"), version)
    wrong = [f"the wheel lacks {name}" for name in sorted(wanted - in_wheel)]
    wrong += [f"the source distribution lacks src/{name}" for name in sorted(wanted - {n[4:] for n in in_sdist})]
    wrong += [f"the source distribution lacks {name}" for name in KEPT if name not in in_sdist]
    for names, kind in ((in_wheel, "wheel"), (in_sdist, "source distribution")):
        wrong += [f"the {kind} has {name}" for name in sorted(names) if any(part in name for part in UNWANTED)]
    if not any(name.endswith("/LICENSE") and ".dist-info/" in name for name in in_wheel):
        wrong.append("the wheel lacks the LICENSE")
    wrong += [
        f"{path.name} is not of version {version['__version__']}"
        for path in (wheel, sdist)
        if version["__version__"] not in path.name
    ]
    for text in wrong:
        print(text, file=sys.stderr)
    data = sum(not name.endswith(".py") for name in wanted)
    print(f"wheel: {len(in_wheel)} files, {data} of them data; source distribution: {len(in_sdist)} files")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
