from __future__ import annotations

import pytest

from foretide.errors import ConfigError
from foretide.traces.options import Options

OPTIONS = Options("foretide-x", {"maxRows": "5", "speed": "2.5", "flag": "TRUE", "bad": "five", "neg": "-1"})


def test_names_are_matched_in_any_case() -> None:
    assert OPTIONS.integer("MAXROWS", 1) == 5
    assert OPTIONS.number("Speed", 1.0) == 2.5
    assert OPTIONS.flag("flag", default=False) is True


def test_defaults_stand_in_for_what_is_missing() -> None:
    assert (OPTIONS.text("a", "b"), OPTIONS.optional("a"), OPTIONS.integer("a", 3)) == ("b", None, 3)
    assert OPTIONS.choice("a", ("x", "y"), "y") == "y"


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda o: o.text("path"), r"foretide-x: option path': expected a value, got none; add \.option"),
        (lambda o: o.integer("bad", 1), "option bad': expected a whole number, got five"),
        (lambda o: o.integer("neg", 1, minimum=0), "expected a whole number of at least 0, got -1"),
        (lambda o: o.number("neg", 1.0), r"expected a positive number, got -1\.0"),
        (lambda o: o.flag("bad", default=True), "expected one of true, false, got five"),
    ],
)
def test_a_bad_option_is_named(read: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(OPTIONS)  # type: ignore[operator]
