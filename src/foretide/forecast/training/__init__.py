"""Training models beforehand and keeping them on disk. It may import `forecast`."""
