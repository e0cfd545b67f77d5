"""Figures 12 to 17 of DABS: the streams, the runs, and their evaluation.

May import `experiments.reproduce` and `sim`.
"""
