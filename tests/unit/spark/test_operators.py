"""The wrapper around users' functions, called as tasks call it, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from foretide.spark.errors import OperatorError
from foretide.spark.tasks import operators
from foretide.spark.tasks.operators import OperatorRunner, OperatorSpec, Outputs
from foretide.topology import Operator
from foretide.traces.replay import EVENT_TIME
from foretide.transport.dead_letters import DEAD_LETTERS, dead_letter_batch

TIMES = pa.array([1_000_000, 2_000_000, 3_000_000, 4_000_000], pa.int64()).cast(EVENT_TIME.type)
EVENTS = pa.record_batch({"id": pa.array([1, 2, 3, 4], pa.int64()), "word": ["a", "b", "c", "d"], "event_time": TIMES})
PLAIN = EVENTS.drop_columns(["event_time"])
ID = pa.schema([("id", pa.int64())])


def runner(
    function: Callable[..., Any] | str | None,
    mode: str = "rows",
    *,
    schemas: Mapping[str, pa.Schema] | None = None,
    retries: int = 1,
    **declared: Any,
) -> OperatorRunner:
    operator = Operator("op", function, mode=mode, **declared)  # type: ignore[arg-type]
    return OperatorRunner(OperatorSpec(operator, schemas or {}, retries))


def rows(outputs: Outputs, output: str = "out") -> list[dict[str, Any]]:
    return [row for part in outputs.get(output, []) for row in part.to_pylist()]


def ids(outputs: Outputs, output: str = "out") -> list[int]:
    return [row["id"] for row in rows(outputs, output)]


def doubled_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "id": row["id"] * 2}


def doubled_frame(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(id=frame["id"] * 2)


def doubled_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    place = batch.schema.get_field_index("id")
    return batch.set_column(place, "id", pc.multiply(batch["id"], 2))


MODES: dict[str, Callable[..., Any]] = {"rows": doubled_row, "pandas": doubled_frame, "arrow": doubled_batch}


class TestModes:
    @pytest.mark.parametrize("mode", MODES)
    def test_each_mode_gives_the_same_rows_and_counts(self, mode: str) -> None:
        op = runner(MODES[mode], mode)
        outputs = op.run(EVENTS)
        assert rows(outputs) == [doubled_row(row) for row in EVENTS.to_pylist()]
        assert (op.rows_in, op.rows_out, op.failed, op.letters) == (4, 4, 0, [])
        assert op.busy_s > 0
        op.reset()
        assert (op.rows_in, op.rows_out, op.busy_s, op.cpu_s) == (0, 0, 0.0, 0.0)

    def test_d2_the_cpu_time_of_the_thread_is_told_from_the_time_that_passes(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The clock of the thread goes on by 3 s in a first batch and by 2 s in a second, whatever passes outside."""
        clock = iter([10.0, 13.0, 20.0, 22.0])
        monkeypatch.setattr(operators, "thread_time", lambda: next(clock))
        op = runner(doubled_row)
        op.run(EVENTS)
        op.run(EVENTS)
        assert op.cpu_s == 5.0
        assert op.busy_s < 5.0

    def test_the_time_for_which_the_thread_waits_for_a_core_is_told_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        waited = iter([1.0, 1.5, 4.0, 4.25])
        monkeypatch.setattr(operators, "stalled_s", lambda: next(waited))
        op = runner(doubled_row)
        op.run(EVENTS)
        op.run(EVENTS)
        assert op.stalled_s == 0.75

    @pytest.mark.parametrize("mode", MODES)
    def test_columns_that_stay_keep_their_types(self, mode: str) -> None:
        nulls = pa.record_batch({"id": pa.array([7], pa.int64()), "word": pa.array([None], pa.string())})
        [part] = runner(MODES[mode], mode).run(nulls)["out"]
        assert part.schema.field("word").type == pa.string()
        assert part.schema.field("id").type == pa.int64()

    def test_a_function_of_rows_may_give_nothing_one_row_many_or_yield_them(self) -> None:
        def spread(row: Mapping[str, Any]) -> Any:
            return {1: None, 2: {"id": 20}, 3: [{"id": 30}, {"id": 31}], 4: []}[row["id"]]

        def yielded(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
            yield from ({"id": row["id"] * 10 + step} for step in range(row["id"] - 1))

        assert ids(runner(spread).run(PLAIN)) == [20, 30, 31]
        assert ids(runner(yielded).run(PLAIN)) == [20, 30, 31, 40, 41, 42]

    @pytest.mark.parametrize("mode", MODES)
    def test_a_function_that_gives_nothing_ends_its_rows(self, mode: str) -> None:
        op = runner(lambda part: None, mode)
        assert ids(op.run(EVENTS)) == []
        assert (op.rows_in, op.rows_out) == (4, 0)

    def test_an_arrow_function_may_return_a_table(self) -> None:
        assert ids(runner(lambda batch: pa.Table.from_batches([batch]), "arrow").run(EVENTS)) == [1, 2, 3, 4]

    def test_a_function_may_be_named(self) -> None:
        assert rows(runner("copy:copy").run(PLAIN)) == PLAIN.to_pylist()

    def test_rows_may_differ_in_columns_where_none_are_declared(self) -> None:
        op = runner(lambda row: {"id": row["id"]} if row["id"] < 3 else {"id": row["id"], "late": True})
        assert [row["late"] for row in rows(op.run(PLAIN))] == [None, None, True, True]


class TestOutputs:
    BOTH = ("odd", "even")

    def split_rows(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {"odd" if row["id"] % 2 else "even": row}

    def split_frame(self, frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
        odd = frame["id"] % 2 == 1
        return {"odd": frame[odd], "even": frame[~odd]}

    def split_batch(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        odd = pc.equal(pc.bit_wise_and(batch["id"], 1), 1)
        return {"odd": batch.filter(odd), "even": batch.filter(pc.invert(odd))}

    @pytest.mark.parametrize("mode", MODES)
    def test_rows_go_to_the_outputs_named(self, mode: str) -> None:
        function = {"rows": self.split_rows, "pandas": self.split_frame, "arrow": self.split_batch}[mode]
        outputs = runner(function, mode, outputs=self.BOTH).run(EVENTS)
        assert (ids(outputs, "odd"), ids(outputs, "even")) == ([1, 3], [2, 4])

    def test_several_rows_and_outputs_from_one_row(self) -> None:
        op = runner(lambda row: {"odd": [row, row], "even": None}, outputs=self.BOTH)
        outputs = op.run(PLAIN.slice(0, 1))
        assert (ids(outputs, "odd"), ids(outputs, "even"), op.rows_out) == ([1, 1], [], 2)

    @pytest.mark.parametrize("mode", MODES)
    def test_a_single_output_of_another_name_gets_what_is_returned(self, mode: str) -> None:
        assert ids(runner(MODES[mode], mode, outputs=("odd",)).run(PLAIN), "odd") == [2, 4, 6, 8]

    @pytest.mark.parametrize("mode", MODES)
    def test_an_unknown_output_stops_the_stage(self, mode: str) -> None:
        with pytest.raises(
            OperatorError, match=r"'op': expected outputs among \['odd', 'even'\], got .*'none'; declare"
        ):
            runner(lambda part: {"none": part}, mode, outputs=self.BOTH).run(EVENTS)


class TestContract:
    @pytest.mark.parametrize(
        ("mode", "function"),
        [
            ("rows", lambda row: {"word": row["word"]}),
            ("pandas", lambda frame: frame[["word"]]),
            ("arrow", lambda batch: batch.select(["word"])),
        ],
    )
    def test_a_missing_column_stops_the_stage(self, mode: str, function: Callable[..., Any]) -> None:
        with pytest.raises(OperatorError) as caught:
            runner(function, mode, schemas={"out": ID}).run(PLAIN)
        error = caught.value
        assert (error.operator, error.expected) == ("op", "columns id int64 on output 'out'")
        assert "'id'" in error.got
        assert error.remedy == "change what the function returns, or the schema= declared for it"

    @pytest.mark.parametrize(
        ("mode", "function"),
        [
            ("rows", lambda row: {"id": row["word"]}),
            ("pandas", lambda frame: frame[["word"]].rename(columns={"word": "id"})),
            ("arrow", lambda batch: pa.record_batch({"id": batch["word"]})),
        ],
    )
    def test_a_wrong_type_stops_the_stage(self, mode: str, function: Callable[..., Any]) -> None:
        with pytest.raises(
            OperatorError, match=r"'op': expected columns id int64 on output 'out', got .*; change what"
        ):
            runner(function, mode, schemas={"out": ID}).run(PLAIN)

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("result", [17, "text", [1, 2]])
    def test_something_that_is_no_batch_stops_the_stage(self, mode: str, result: object) -> None:
        with pytest.raises(OperatorError, match="operator 'op': expected"):
            runner(lambda part: result, mode).run(PLAIN)

    def test_a_message_fits_one_line_whatever_came(self) -> None:
        error = OperatorError("op", expected="this", got="two\nlines", remedy="do that")
        assert str(error) == "operator 'op': expected this, got two lines; do that"

    def test_the_declared_types_win_and_other_columns_are_left_out(self) -> None:
        schemas = {"out": pa.schema([("id", pa.int32()), ("word", pa.large_string())])}
        for mode, function in MODES.items():
            [part] = runner(function, mode, schemas=schemas).run(PLAIN.append_column("more", pa.array([1, 2, 3, 4])))[
                "out"
            ]
            assert part.schema.equals(schemas["out"]), mode

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("no_such_module:f", "expected a function 'no_such_module:f' that workers can import, got ModuleNotFound"),
            ("json:no_such_function", "got AttributeError: .*no_such_function.*; ship its module with"),
            ("json", "that workers can import, got"),
            ("json:__name__", "expected a function 'json:__name__', got 'json'; correct the name"),
            (None, "expected a function to run on Spark, got none; declare the operator with one"),
        ],
    )
    def test_a_function_that_cannot_be_found_is_named(self, name: str | None, message: str) -> None:
        with pytest.raises(OperatorError, match=message):
            runner(name)


class Flaky:
    """A function that fails on some ids, each a number of times; it counts its calls."""

    def __init__(self, mode: str, **times: int) -> None:
        self.left = {int(id[1:]): count for id, count in times.items()}
        self.calls, self._mode = 0, mode

    def __call__(self, part: Any) -> Any:
        self.calls += 1
        numbers = (
            [part["id"]]
            if self._mode == "rows"
            else list(part["id"].to_pylist() if self._mode == "arrow" else part["id"])
        )
        for id in numbers:
            if self.left.get(id, 0):
                self.left[id] -= 1
                raise ValueError(f"cannot take {id}")
        return MODES[self._mode](part)


class TestFailures:
    @pytest.mark.parametrize("mode", MODES)
    def test_an_error_that_passes_is_retried_and_nothing_is_set_aside(self, mode: str) -> None:
        op = runner(Flaky(mode, n3=1), mode, retries=1)
        assert ids(op.run(EVENTS)) == [2, 4, 6, 8]
        assert (op.failed, op.letters, op.rows_out) == (0, [], 4)

    @pytest.mark.parametrize("mode", MODES)
    def test_a_bad_event_becomes_a_dead_letter_and_the_others_go_on(self, mode: str) -> None:
        op = runner(Flaky(mode, n3=99), mode, retries=2)
        outputs = op.run(EVENTS)
        assert ids(outputs) == [2, 4, 8]
        assert (op.rows_in, op.rows_out, op.failed) == (4, 3, 1)
        [letter] = op.letters
        assert (letter.operator, letter.error, letter.message) == ("op", "ValueError", "cannot take 3")
        assert json.loads(letter.event) == {"id": 3, "word": "c", "event_time": "1970-01-01 00:00:03+00:00"}

    def test_a_batch_is_retried_then_halved_then_its_events_are_retried_alone(self) -> None:
        function = Flaky("arrow", n3=99)
        runner(function, "arrow", retries=1).run(PLAIN)
        # All four twice; [1, 2]; [3, 4]; [3] and its retry; [4].
        assert function.calls == 2 + 1 + 1 + 2 + 1

    @pytest.mark.parametrize("mode", MODES)
    def test_all_events_may_fail(self, mode: str) -> None:
        op = runner(Flaky(mode, n1=99, n2=99, n3=99, n4=99), mode)
        assert ids(op.run(EVENTS)) == []
        assert [json.loads(letter.event)["id"] for letter in op.letters] == [1, 2, 3, 4]

    def test_a_broken_contract_is_not_retried(self) -> None:
        calls: list[int] = []

        def function(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
            calls.append(batch.num_rows)
            return {"elsewhere": batch}

        with pytest.raises(OperatorError):
            runner(function, "arrow", retries=5).run(PLAIN)
        assert calls == [4]

    def test_a_generator_that_fails_half_way_leaves_no_half_rows(self) -> None:
        def function(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
            yield {"id": row["id"]}
            if row["id"] == 2:
                raise RuntimeError("half way")
            yield {"id": -row["id"]}

        op = runner(function, retries=3)
        assert ids(op.run(PLAIN)) == [1, -1, 3, -3, 4, -4]
        assert [letter.message for letter in op.letters] == ["half way"]

    @pytest.mark.parametrize("mode", MODES)
    def test_time_in_calls_that_raise_is_told_from_work(self, mode: str) -> None:
        good, bad = runner(Flaky(mode), mode), runner(Flaky(mode, n1=99, n2=99, n3=99, n4=99), mode)
        good.run(EVENTS)
        bad.run(EVENTS)
        assert good.failing_s == 0 < good.busy_s
        assert 0 < bad.failing_s <= bad.busy_s

    def test_a_letter_names_the_line_of_the_users_code_that_raised(self, tmp_path: Path) -> None:
        script = tmp_path / "job.py"
        script.write_text("def split(rows):\n    rows = rows.copy()\n    return rows.asign(n=1)\n")
        names: dict[str, Any] = {}
        exec(compile(script.read_text(), str(script), "exec"), names)
        op = runner(names["split"], "pandas")
        op.run(PLAIN)
        # The exception arose inside pandas; the line is the one that called it.
        assert {letter.where for letter in op.letters} == {f"{script}:3: return rows.asign(n=1)"}
        assert {letter.error for letter in op.letters} == {"AttributeError"}

    def test_a_function_without_lines_has_none_to_name(self) -> None:
        op = runner(int)
        op.run(PLAIN)
        assert [letter.where for letter in op.letters] == [""] * 4

    def test_dead_letters_become_rows(self) -> None:
        op = runner(Flaky("rows", n1=99, n4=99))
        op.run(EVENTS)
        batch = dead_letter_batch(op.letters)
        assert batch.schema.equals(DEAD_LETTERS)
        assert batch["operator"].to_pylist() == ["op", "op"]
        assert dead_letter_batch([]).num_rows == 0


class TestEventTime:
    @pytest.mark.parametrize(
        ("mode", "function"),
        [
            ("rows", lambda row: {"id": row["id"]}),
            ("pandas", lambda frame: frame[["id"]]),
            ("arrow", lambda batch: batch.select(["id"])),
        ],
    )
    @pytest.mark.parametrize("schemas", [{}, {"out": ID}])
    def test_it_is_kept_where_the_function_drops_it(
        self, mode: str, function: Callable[..., Any], schemas: Mapping[str, pa.Schema]
    ) -> None:
        [part] = runner(function, mode, schemas=schemas).run(EVENTS)["out"]
        assert part["event_time"].to_pylist() == TIMES.to_pylist()
        assert part.schema.field("event_time").type == EVENT_TIME.type

    def test_rows_from_one_event_have_its_time_unless_they_set_their_own(self) -> None:
        own = TIMES[3].as_py()
        op = runner(lambda row: [{"id": 1}, {"id": 2, "event_time": own}])
        found = [row["event_time"] for row in rows(op.run(EVENTS.slice(0, 1)))]
        assert found == [TIMES[0].as_py(), own]

    @pytest.mark.parametrize("mode", ["pandas", "arrow"])
    @pytest.mark.parametrize("keep", [4, 2, 1])
    def test_every_batch_of_an_output_has_the_same_columns(self, mode: str, keep: int) -> None:
        def function(part: Any) -> Any:
            head = part[["id"]] if mode == "pandas" else part.select(["id"])
            return head[:keep] if mode == "pandas" else head.slice(0, keep)

        [part] = runner(function, mode).run(EVENTS)["out"]
        assert part.schema.names == ["id", "event_time"]
        assert part.schema.field("event_time").type == EVENT_TIME.type

    @pytest.mark.parametrize("mode", ["pandas", "arrow"])
    def test_a_batch_that_was_halved_has_the_same_columns(self, mode: str) -> None:
        flaky = Flaky(mode, n3=99)

        def function(part: Any) -> Any:
            result = flaky(part)
            return result[["id"]] if mode == "pandas" else result.select(["id"])

        parts = runner(function, mode).run(EVENTS)["out"]
        assert {tuple(part.schema.names) for part in parts} == {("id", "event_time")}

    def test_without_event_times_none_are_made_up(self) -> None:
        [part] = runner(lambda batch: batch.select(["id"]), "arrow").run(PLAIN)["out"]
        assert part.schema.names == ["id"]
