"""Fronts instead of points: policies swept over their knobs, and the best plan that knows the future.

May import what `sim` may.
"""
