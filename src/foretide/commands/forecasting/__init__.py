"""Commands of the forecasting library: list, backtest, train. They may import anything below."""
