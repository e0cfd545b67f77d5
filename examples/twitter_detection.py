"""The Twitter detection of PA-SPS, which Foretide ships as an application, at the trace's own speed and unpaced.

    foretide run examples/twitter_detection.py --rate-scale 0.5 --minutes 1

Its operators are in `foretide.apps.twitter_detection`; ``foretide run twitter-detection`` runs it as it is.
"""

from __future__ import annotations

from foretide.apps import find_app

topology = find_app("twitter-detection").build({"rate_scale": 0.2, "speed": 1.0, "paced": False})
