"""Tables 2 to 8 of PA-SPS: the policies, the runs, and what is made of them.

May import `experiments.reproduce` and `sim`.
"""
