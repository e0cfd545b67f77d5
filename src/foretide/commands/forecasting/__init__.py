"""Commands of the forecasting library: list models, backtest, train.

May import what `commands` may.
"""
