"""What every request passes: access, limits, bodies, answers, problems.

May import the settings of `service`, and the errors of `store`.
"""
