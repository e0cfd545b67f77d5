"""What a crash leaves of a run's checkpoints."""

from __future__ import annotations

from pathlib import Path

__all__ = ["forget_last_batch"]


def forget_last_batch(root: Path, stage: str) -> None:
    """Take from Spark that the last batch of a stage is done, as a crash would."""
    commits = root / "stages" / stage / "checkpoint" / "commits"
    last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)
