import pytest

from foretide.errors import ConfigError
from foretide.grouping import GROUPINGS, Osg, grouping_from_state, make_grouping


def test_every_grouping_has_its_name() -> None:
    assert list(GROUPINGS) == [
        "shuffle", "fields", "all", "global", "direct", "partial-key", "load-aware", "dynamic", "osg",
    ]  # fmt: skip


def test_options_reach_the_grouping() -> None:
    osg = make_grouping("osg", 2, epsilon=0.7, delta=0.25)
    assert isinstance(osg, Osg) and (osg.family.rows, osg.family.columns) == (2, 4)


def test_an_unknown_name_lists_the_known_ones() -> None:
    for build in (lambda: make_grouping("rnd", 2), lambda: grouping_from_state({"grouping": "rnd"})):
        with pytest.raises(ConfigError, match=r"one of shuffle, fields, .*osg, got 'rnd'"):
            build()
    with pytest.raises(ConfigError, match="one of shuffle"):
        grouping_from_state({})
    with pytest.raises(ConfigError, match="one of shuffle"):
        make_grouping(["shuffle"], 2)  # type: ignore[arg-type]


def test_an_unknown_option_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"grouping\.dynamic\.weight'.*one of weights, m"):
        make_grouping("dynamic", 2, weight=[1, 2])
    with pytest.raises(ConfigError, match=r"grouping\.fields\.seed'.*no options"):
        make_grouping("fields", 2, seed=1)
