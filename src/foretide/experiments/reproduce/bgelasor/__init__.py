"""Table 1 and figures 4 and 5 of BGElasor: the runs, and their evaluation.

May import `experiments.reproduce` and `sim`.
"""
