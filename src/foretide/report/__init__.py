"""Reports of runs as pages: one engine-neutral record, and the page made from it.

May import `spark`, `sim`, `control` and what lies below them.
"""

from foretide.report.page import to_html
from foretide.report.record import DecisionMark, Expected, Figure, RunRecord
from foretide.report.runs import record_of

__all__ = ["DecisionMark", "Expected", "Figure", "RunRecord", "record_of", "to_html"]
