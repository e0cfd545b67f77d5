"""Tables 2 to 8 of PA-SPS: the policies, the runs, and their evaluation.

May import `experiments.reproduce` and `sim`.
"""
