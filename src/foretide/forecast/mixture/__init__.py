"""The default forecaster `auto`: many experts, mixed online.

May import `forecast` and `forecast.models`.
"""
