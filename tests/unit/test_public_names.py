import importlib

import pytest

import foretide


@pytest.mark.parametrize("name", foretide.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(foretide, name)
    assert name == "__version__" or value.__doc__


def test_the_names_that_type_checkers_see_are_those_that_load() -> None:
    assert {*foretide._HOME, "__version__"} == set(foretide.__all__)
    for name, home in foretide._HOME.items():
        assert name in importlib.import_module(home).__all__


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        foretide.nothing  # noqa: B018
