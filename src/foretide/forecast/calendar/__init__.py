"""What the calendar says of a rate: the level of the hour, the day of the week, holidays and known events.

May import `forecast.series`, `config`, `errors` and `records`.
"""
