"""The published tables and figures, reproduced in the simulator: `foretide reproduce`.

May import `sim` and everything below it, not Spark.
"""

from foretide.experiments.report import Check
from foretide.experiments.reproduce.contract import Comparison, Experiment, Result, Scope
from foretide.experiments.reproduce.pages import to_report, write_index
from foretide.experiments.reproduce.registry import EXPERIMENTS, find_experiments
from foretide.experiments.reproduce.running import RunError, run_jobs

__all__ = [
    "EXPERIMENTS",
    "Check",
    "Comparison",
    "Experiment",
    "Result",
    "RunError",
    "Scope",
    "find_experiments",
    "run_jobs",
    "to_report",
    "write_index",
]
