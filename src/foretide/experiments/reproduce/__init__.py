"""The published tables and figures, made anew in the simulator: `foretide reproduce`.

May import `sim` and everything below it, not Spark.
"""

from foretide.experiments.reproduce.contract import Check, Comparison, Experiment, Result, Scope
from foretide.experiments.reproduce.registry import EXPERIMENTS, find_experiments
from foretide.experiments.reproduce.running import RunError, run_jobs
from foretide.experiments.reproduce.writing import write_index, write_result

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
    "write_index",
    "write_result",
]
