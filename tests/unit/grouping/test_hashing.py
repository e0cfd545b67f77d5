from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from foretide.errors import ConfigError
from foretide.grouping import hash_columns


def one(column: object) -> int:
    return int(hash_columns([column])[0])  # type: ignore[list-item]


MOMENT = datetime(2024, 5, 1, 12, 30, 15, tzinfo=UTC)
FIVES = [
    *(np.array([5], dtype=kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")),
    pa.array([5], pa.int32()),
    pa.array([5.0]),
    pa.array([Decimal("5.00")]),
    pa.array([5]).dictionary_encode(),
    pa.array([9, 5, 7])[1:2],
]
TEXTS = [
    np.array(["storm"]),
    np.array(["storm"], dtype=object),
    np.array([b"storm"]),
    pa.array(["storm"]),
    pa.array(["storm"], pa.large_string()),
    pa.array(["storm"], pa.string_view()),
    pa.array([b"storm"], pa.binary(5)),
    pa.array(["storm"]).dictionary_encode(),
    pa.array(["rain", "storm", None])[1:2],
    pa.chunked_array([["storm"]]),
]
MOMENTS = [
    *(pa.array([MOMENT], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    pa.array([MOMENT], pa.timestamp("us", tz="Europe/Madrid")),
    np.array(["2024-05-01T12:30:15"], dtype="datetime64[s]"),
]
DAYS = [
    pa.array([date(2024, 5, 1)]),
    pa.array([date(2024, 5, 1)], pa.date64()),
    np.array(["2024-05-01"], dtype="datetime64[D]"),
]
SPANS = [pa.array([timedelta(seconds=3)], pa.duration(unit)) for unit in ("s", "ms", "us", "ns")]


@pytest.mark.parametrize("same", [FIVES, TEXTS, MOMENTS, DAYS, SPANS], ids=["5", "text", "moment", "day", "span"])
def test_equal_values_hash_alike_whatever_their_storage(same: list[object]) -> None:
    assert len({one(column) for column in same}) == 1


def test_hashes_are_the_same_on_every_machine() -> None:
    assert hash_columns([np.array([5, -1])]).tolist() == [1952936728445087881, -4781302686461524836]
    texts = pa.array(["", "storm", "a longer string"])
    assert hash_columns([texts]).tolist() == [7960286522194355700, -3491889992129475440, -329976266950505486]
    assert one(np.array([0.5])) == -5951376175301048463
    assert one(pa.array([None])) == -1783565962354613463


def test_zeros_nans_and_nulls() -> None:
    assert one(np.array([-0.0])) == one(np.array([0.0])) == one(np.array([0])) == one(np.array([False]))
    assert one(np.array([float("nan")])) == one(np.array([-float("nan")]))
    nulls = [pa.array([None], kind) for kind in (pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.date32())]
    assert len({one(null) for null in nulls}) == 1
    others = {one(pa.array(values)) for values in ([0], [""], [float("nan")], ["null"], [float("inf")])}
    assert len(others) == 5 and one(nulls[0]) not in others


def test_an_integer_column_with_nulls_made_float_keeps_its_keys() -> None:
    big = 2**53 - 1
    assert hash_columns([np.array([1.0, big])]).tolist() == hash_columns([np.array([1, big])]).tolist()


@pytest.mark.parametrize("value", [2.0**63, -(2.0**63) * 2, 1e300, float("inf"), 0.1, 5e-324])
def test_floats_that_are_no_64_bit_integer_have_hashes_of_their_own(value: float) -> None:
    bits = np.array([value]).view(np.int64)
    others = [np.array([0]), np.array([1]), np.array([2**63 - 1]), np.array([-(2**63)]), bits]
    assert one(np.array([value])) not in {one(other) for other in others}


def test_a_null_hides_what_is_stored_below_it() -> None:
    hidden = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([5, 77]).tobytes())])
    assert hash_columns([hidden]).tolist() == hash_columns([pa.array([5, None])]).tolist()


def test_order_of_columns_and_their_number_matter() -> None:
    a, b = np.array([1]), np.array([2])
    keys = [hash_columns(columns)[0] for columns in ([a, b], [b, a], [a], [b], [a, a], [a, a, a])]
    assert len(set(keys)) == 6


def test_strings_are_not_glued_together() -> None:
    keys = [hash_columns([pa.array([x]), pa.array([y])])[0] for x, y in (("ab", "c"), ("a", "bc"), ("abc", ""))]
    assert len(set(keys)) == 3


def test_trailing_zero_bytes_count() -> None:
    assert len({one(pa.array([b"a" + b"\0" * zeros])) for zeros in range(20)}) == 20


def test_many_values_do_not_collide() -> None:
    assert len(np.unique(hash_columns([np.arange(200_000)]))) == 200_000
    assert len(np.unique(hash_columns([pa.array(np.arange(200_000)).cast(pa.string())]))) == 200_000


def test_far_instants_agree_across_units_though_they_overflow_in_nanoseconds() -> None:
    far = 400 * 365 * 86_400
    assert one(pa.array([far], pa.timestamp("s"))) == one(pa.array([far * 1000], pa.timestamp("ms")))


def test_no_rows_give_no_keys() -> None:
    assert hash_columns([pa.array([], pa.string()), np.array([], dtype=np.int64)]).tolist() == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "got no column"),
        ([np.arange(2), np.arange(3)], "columns of 2 and 3 rows"),
        ([np.arange(1), pa.array([[1, 2]])], r"keys\[1\].*list<.*choose a field inside it"),
        ([pa.array([{"a": 1}])], r"keys\[0\].*struct"),
        ([np.array([object()])], r"keys\[0\]"),
    ],
)
def test_errors_say_what_is_wrong(columns: list[object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        hash_columns(columns)  # type: ignore[arg-type]
