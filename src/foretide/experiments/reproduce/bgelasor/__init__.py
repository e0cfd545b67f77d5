"""Figures 4 and 5 of BGElasor: the runs, and what is made of them.

May import `experiments.reproduce` and `sim`.
"""
