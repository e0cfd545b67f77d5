"""Files anywhere: on a disk or in an object store, put as a whole, read by ranges, listed and deleted.

May import `errors`, `extras` and `files`.
"""

from foretide.depot.contract import Depot, DepotError, Entry
from foretide.depot.opening import is_remote, joined, open_depot

__all__ = ["Depot", "DepotError", "Entry", "is_remote", "joined", "open_depot"]
