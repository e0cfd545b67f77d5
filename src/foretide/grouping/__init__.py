"""Groupings: which replicas of an operator get a tuple. One per file, all with one contract.

May import the small modules only, so that the simulator and Spark's tasks can use the same classes.
"""

from typing import TYPE_CHECKING

from foretide._lazy import lazy_names
from foretide.grouping.all import All
from foretide.grouping.base import Assignment, Grouping, TableGrouping
from foretide.grouping.direct import Direct
from foretide.grouping.dynamic import Dynamic
from foretide.grouping.fields import Fields
from foretide.grouping.global_ import Global
from foretide.grouping.load_aware import LoadAware, utilisation
from foretide.grouping.osg import Osg, SchedulerPhase
from foretide.grouping.osg_task import OsgTask, SyncReply, SyncRequest, TaskPhase
from foretide.grouping.partial_key import PartialKey
from foretide.grouping.registry import GROUPINGS, grouping_from_state, make_grouping
from foretide.grouping.ring import Ring
from foretide.grouping.shuffle import Shuffle
from foretide.grouping.sketch import CountMin, HashFamily, Sketches

if TYPE_CHECKING:
    from foretide.grouping.hashing import hash_columns

__all__ = [
    "GROUPINGS",
    "All",
    "Assignment",
    "CountMin",
    "Direct",
    "Dynamic",
    "Fields",
    "Global",
    "Grouping",
    "HashFamily",
    "LoadAware",
    "Osg",
    "OsgTask",
    "PartialKey",
    "Ring",
    "SchedulerPhase",
    "Shuffle",
    "Sketches",
    "SyncReply",
    "SyncRequest",
    "TableGrouping",
    "TaskPhase",
    "grouping_from_state",
    "hash_columns",
    "make_grouping",
    "utilisation",
]

# Keys of columns need Arrow, the rest does not.
__getattr__ = lazy_names(__name__, {"hash_columns": "foretide.grouping.hashing"})
