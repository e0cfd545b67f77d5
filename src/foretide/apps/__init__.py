"""The papers' applications, one file each, written with the public names alone."""

from foretide.apps.base import SINK, App, AppOptions, Rows
from foretide.apps.registry import APPS, find_app

__all__ = ["APPS", "SINK", "App", "AppOptions", "Rows", "find_app"]
