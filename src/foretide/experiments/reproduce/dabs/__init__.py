"""Figures 12 to 17 of DABS: the streams, the runs, and what is made of them.

May import `experiments.reproduce` and `sim`.
"""
