"""The papers' applications, one file each, written with public names only.

May import `topology`, `traces` and what lies below them; Spark is not needed to declare one.
"""

from foretide.extras import needs_extra

with needs_extra("spark", "the applications"):
    from foretide.apps.base import SINK, App, AppOptions, Rows
    from foretide.apps.registry import APPS, find_app

__all__ = ["APPS", "SINK", "App", "AppOptions", "Rows", "find_app"]
