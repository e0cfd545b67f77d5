"""Policies by name, profiles, and what the command line makes of its options; no Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from foretide.commands.running.request import RunRequest, default_master, is_application
from foretide.control import ControlSettings
from foretide.control.policies import STATIC_PEAK, Policy, parse_policy
from foretide.control.profiles import Profile, profile_path, stored_profile
from foretide.control.steering import Steering, make_steering, peak_replicas, trace_peaks, trace_speed
from foretide.errors import ConfigError
from foretide.plan import Guarded, Static
from foretide.plan.base import Situation
from foretide.plan.guards import UtilisationTarget
from foretide.plan.promise import Promise
from foretide.spark.driver.profile import profile_topology
from foretide.spark.errors import OperatorError
from foretide.topology import Topology, flow


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([pa.concat_arrays([batch["id"], batch["id"]])], names=["id"])


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    trace = tmp_path / "steps.csv"
    trace.write_text("second,events_per_second\n0,10\n1,40\n2,5\n")
    job = flow("line")
    source = job.source("in", "trace", trace=str(trace), payload="ids", speed=5, rate_scale=2)
    first = source.operator("a", double, mode="arrow", execution_s=0.01, selectivity=2.0, replicas=(1, 8))
    first.operator("b", same, mode="arrow", execution_s=0.001, selectivity=1.0, replicas=(2, 8)).sink("out", "none")
    return job.build()


def steering(name: str, topology: Topology, **guards: Any) -> Steering:
    return make_steering(parse_policy(name, "basic"), topology, ControlSettings.model_validate({"guards": guards}))


class TestPolicies:
    def test_the_peak_of_a_trace_is_that_of_its_events_as_they_come(self, topology: Topology) -> None:
        assert trace_peaks(topology) == {"in": 400.0}
        assert trace_speed(topology) == 5.0

    def test_p4_the_peak_needs_so_many_replicas(self, topology: Topology) -> None:
        # 400/s for 10 ms are 4; twice as many for 1 ms are 0.8, but two is the fewest.
        assert peak_replicas(topology, {"in": 400.0}, {}) == {"a": 4, "b": 2}
        assert peak_replicas(topology, {"in": 400.0}, {"a": 0.015}, utilisation=0.75) == {"a": 8, "b": 2}

    def test_an_execution_time_that_is_not_known_is_asked_for(self) -> None:
        job = flow("unknown")
        job.source("in").operator("a")
        with pytest.raises(ConfigError, match="measure it with `foretide profile`"):
            peak_replicas(job.build(), {"in": 1.0}, {})

    def test_the_two_static_plans_start_where_they_stay(self, topology: Topology) -> None:
        least, most = (steering(name, topology) for name in ("static-min", "static-peak"))
        assert least.replicas == {"a": 1, "b": 2}
        assert most.replicas == {"a": 4, "b": 2}
        assert isinstance(most.planner, Static) and most.planner.by_operator == {"a": 4, "b": 2}

    def test_guards_stand_behind_planners_that_size_by_load_alone(self, topology: Topology) -> None:
        assert isinstance(steering("pasps", topology, utilisation_target=0.8).planner, Guarded)
        for name in ("threshold", "keda", "flink"):
            planner: Any = steering(name, topology, utilisation_target=0.8).planner
            assert not getattr(planner, "guards", ())

    def test_waiting_times_pass_as_fast_as_the_trace(self, topology: Topology) -> None:
        threshold, keda, flink = (
            cast(Any, steering(name, topology).planner) for name in ("threshold", "keda", "flink")
        )
        assert threshold.planner.cooldown_s == 60.0
        assert (keda.planner.scale_down_window_s, keda.planner.scale_up_period_s) == (60.0, 3.0)
        assert (flink.metrics_window_s, flink.restart_s, flink.scale_down_interval_s) == (180.0, 60.0, 720.0)

    def test_a_waiting_time_that_is_given_is_taken_as_it_is(self, topology: Topology) -> None:
        policy = parse_policy("keda", settings={"keda": {"scale_down_window_s": 10.0}})
        keda: Any = make_steering(policy, topology, ControlSettings()).planner
        assert (keda.planner.scale_down_window_s, keda.planner.cooldown_s) == (10.0, 60.0)

    def test_all_that_waits_counts_for_rules_that_go_by_lag_alone(self, topology: Topology) -> None:
        counts = {name: steering(name, topology).whole_lag for name in ("threshold", "keda", "flink", "ds2")}
        assert counts == {"threshold": True, "keda": True, "flink": False, "ds2": False}

    @pytest.mark.parametrize(("name", "replicas"), [("threshold", [1, 5]), ("keda", [1, 6])])
    def test_the_lag_of_a_stage_scales_its_costliest_operator(
        self, topology: Topology, make_situation: Callable[..., Situation], name: str, replicas: list[int]
    ) -> None:
        planner = steering(name, topology).planner
        assert planner is not None and planner.name == name
        situation = make_situation(topology, queued={"a": 450.0}, execution_s={"a": 0.001, "b": 0.02})
        # The queue is before 'a', but it is 'b' that the slots of the stage are busy with. KEDA's rule wants the whole
        # pool, and may add four replicas to two at first.
        assert planner.plan(situation).replicas.tolist() == replicas

    def test_without_a_trace_there_is_no_peak(self, topology: Topology) -> None:
        with pytest.raises(ConfigError, match="whose peak is known, for static-peak"):
            Policy(STATIC_PEAK).fixed_replicas(topology, {})

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("pasp", "setting 'policy': expected one of static-min, static-peak, foretide, .* did you mean 'pasps'"),
            ("static-pick", "did you mean 'static-peak'"),
            ("pasps:annn", "setting 'forecaster': expected one of .* did you mean 'ann'"),
            ("pasps:lr,ds2", "setting '--policy': expected one policy"),
        ],
    )
    def test_a_policy_that_is_not_known_is_answered_with_the_nearest_names(self, text: str, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            parse_policy(text, "basic")

    def test_a_forecaster_after_the_colon_wins(self, topology: Topology) -> None:
        found = steering("pasps:lr", topology)
        assert (found.policy_name, found.forecaster_name, found.settings.planner) == ("pasps:lr", "lr", "pasps")
        assert steering("pasps", topology).forecaster_name == "basic"
        assert steering("static-min", topology).forecaster_name == ""


class TestProfile:
    def test_p7_operators_are_tried_with_the_events_of_their_sources(self, topology: Topology) -> None:
        found = profile_topology(topology, events=100, pieces=5)
        assert found.operators["a"].events == 100
        # What the first passes on reaches the second.
        assert found.operators["b"].events == 200
        assert found.operators["a"].selectivity == {"out": 2.0}
        assert all(part.execution_s > 0 for part in found.operators.values())

    def test_events_that_fail_are_told_of(self, topology: Topology, caplog: pytest.LogCaptureFixture) -> None:
        def odd(row: dict[str, Any]) -> dict[str, Any]:
            if row["id"] % 2 == 0:
                raise ValueError("even")
            return row

        first, *others = topology.operators
        found = profile_topology(
            replace(topology, operators=(replace(first, function=odd, mode="rows"), *others)), events=40
        )
        assert found.operators["a"].execution_s > 0 and found.operators["a"].selectivity == {"out": 0.5}
        assert "operator 'a' failed on 20 events: ValueError: even at" in caplog.text

    def test_an_operator_that_always_fails_cannot_be_measured(self, topology: Topology) -> None:
        def broken(row: dict[str, Any]) -> Any:
            return row.asign(n=1)  # type: ignore[attr-defined]

        first, *others = topology.operators
        with pytest.raises(OperatorError, match=r"operator 'a': .* got AttributeError: .*row\.asign\(n=1\)"):
            profile_topology(
                replace(topology, operators=(replace(first, function=broken, mode="rows"), *others)), events=40
            )

    def test_an_operator_with_a_key_is_measured_with_a_state_in_memory(self) -> None:
        def count(key: str, rows: list[dict[str, Any]], state: Mapping[str, Any] | None) -> tuple[Any, Any]:
            n = len(rows) + (state["n"] if state else 0)
            return {"key": key, "n": n}, {"n": n}

        job = flow("keyed")
        job.source("in", "trace", trace="pasps_dns").operator(
            "count", count, key="key", state="n long", schema="key string, n long"
        ).sink("out")
        found = profile_topology(job.build(), events=100, pieces=5).operators["count"]
        assert found.events == 100 and found.execution_s > 0 and 0 < found.selectivity["out"] <= 1

    def test_a_profile_is_kept_beside_the_file_and_found_again(self, topology: Topology, tmp_path: Path) -> None:
        job = tmp_path / "job.py"
        job.write_text("")
        assert stored_profile(job, topology) is None
        found = profile_topology(topology, events=10)
        profile_path(job).write_text(found.to_json())
        again = stored_profile(job, topology)
        assert again is not None and again.execution_s == pytest.approx(found.execution_s)

    def test_the_profile_of_another_topology_is_not_taken(self, topology: Topology, tmp_path: Path) -> None:
        other = Profile("other", 0.0, {})
        profile_path(tmp_path / "job.py").write_text(other.to_json())
        assert stored_profile(tmp_path / "job.py", topology) is None

    @pytest.mark.parametrize("text", ["{", json.dumps([1]), json.dumps({"topology": "line"})])
    def test_a_file_that_is_no_profile_is_named(self, topology: Topology, tmp_path: Path, text: str) -> None:
        profile_path(tmp_path / "job.py").write_text(text)
        with pytest.raises(ConfigError, match=r"job.profile.json.*expected a profile in JSON"):
            stored_profile(tmp_path / "job.py", topology)

    def test_sources_that_cannot_be_replayed_are_refused(self) -> None:
        job = flow("files")
        job.source("in", "files", path="x").operator("a")
        with pytest.raises(ConfigError, match="a source of kind 'trace' to take events from"):
            profile_topology(job.build())


class TestAsked:
    def test_applications_are_steered_and_files_if_one_asks(self) -> None:
        application, file = "twitter-classification", "job.py"
        assert RunRequest(named=application).steered
        assert not RunRequest(named=file).steered
        assert not RunRequest(named=application, policy="none").steered
        assert [policy.name for policy in RunRequest(named=file, policy="ds2").policies()] == ["ds2"]
        assert RunRequest(named=file, td_s=2.0).steered
        assert RunRequest(named=file, td_s=2.0).policies() == RunRequest(named=application).policies()

    def test_a_name_without_an_ending_is_an_application(self, tmp_path: Path) -> None:
        assert is_application("twitter-classification")
        assert not is_application("job.toml") and not is_application(tmp_path)

    def test_an_application_gets_a_slot_for_every_replica_of_its_pools(self, topology: Topology) -> None:
        assert default_master(topology) == "local[16]"
        assert default_master(topology, workers=3) == "local-cluster[3,6,1024]"
        assert RunRequest(named="twitter-classification", health="none").master_for(topology) == "local[16]"
        watched = RunRequest(named="twitter-classification", health="peers")
        assert watched.master_for(topology) == "local-cluster[4,4,1024]"
        assert RunRequest(named="my.py", health="peers").steered

    def test_what_is_said_wins_over_the_file_and_the_file_over_defaults(
        self, topology: Topology, tmp_path: Path
    ) -> None:
        config = tmp_path / "control.toml"
        config.write_text('forecaster = "lr"\n[loop]\ntd_s = 7.0\nhistory = 50\n[guards]\nutilisation_target = 0.9\n')
        request = RunRequest(named=tmp_path / "job.py", config=config, td_s=4.0, advisory=True)
        control = request.steering(topology).settings
        assert (control.loop.td_s, control.loop.history, control.loop.advisory) == (4.0, 50, True)
        assert (control.forecaster, control.guards.utilisation_target) == ("lr", 0.9)
        assert control.loop.stale_after_s == 20.0

    def test_the_planner_of_a_file_decides_unless_a_policy_is_named(self, topology: Topology, tmp_path: Path) -> None:
        config = tmp_path / "control.toml"
        config.write_text('planner = "pasps"\nforecaster = "lr"\n')
        of_file, named = (RunRequest(named="job.py", config=config, policy=policy) for policy in (None, "ds2"))
        assert of_file.steering(topology).policy_name == "pasps"
        assert named.steering(topology).policy_name == "ds2"

    def test_planners_that_size_by_load_leave_room_unless_the_file_says_how_much(
        self, topology: Topology, tmp_path: Path
    ) -> None:
        config = tmp_path / "control.toml"
        config.write_text("[guards]\nutilisation_target = 0.9\n")

        def targets(policy: str, config: Path | None = None) -> list[float]:
            planner = RunRequest(named="job.py", policy=policy, config=config).steering(topology).planner
            guards = planner.guards if isinstance(planner, Guarded) else ()
            return [guard.target for guard in guards if isinstance(guard, UtilisationTarget)]

        assert (targets("pasps"), targets("pasps", config)) == ([0.6], [0.9])
        # Ours learns what a batch takes, and needs no such rule.
        assert (targets("foretide"), targets("foretide", config)) == ([], [0.9])

    def test_savings_are_measured_against_the_peak(self, topology: Topology, tmp_path: Path) -> None:
        found = RunRequest(named=tmp_path / "job.py", policy="static-peak").steering(topology)
        # 400/s for 10 ms keep 4 replicas busy, with room to spare 7.
        assert found.replicas == {"a": 7, "b": 2}
        assert found.overestimated == 9

    @pytest.mark.parametrize("text", ["4", "a:b", "3:1"])
    def test_bounds_of_executors_are_checked(self, topology: Topology, tmp_path: Path, text: str) -> None:
        with pytest.raises(ConfigError, match="--executors"):
            RunRequest(named=tmp_path / "job.py", executors=text).steering(topology)


class TestPromise:
    def test_what_is_promised_on_the_command_line_reaches_the_planner(self, topology: Topology) -> None:
        steering = RunRequest(named="job.py", slo="p95<600ms").steering(topology)
        planner: Any = steering.planner.planner if isinstance(steering.planner, Guarded) else steering.planner
        assert (planner.slo, steering.settings.promise) == ("p95<600ms", Promise(0.95, 0.6))

    def test_a_planner_that_takes_no_promise_is_measured_by_it(self, topology: Topology) -> None:
        steering = RunRequest(named="job.py", policy="pasps", slo="p95<600ms").steering(topology)
        assert steering.settings.promise == Promise(0.95, 0.6)

    def test_a_run_with_a_promise_is_steered(self) -> None:
        assert RunRequest(named="job.py", slo="p95<600ms").steered

    def test_one_that_is_malformed_names_the_option(self) -> None:
        with pytest.raises(ConfigError, match="setting '--slo': expected a quantile and a latency"):
            _ = RunRequest(named="job.py", slo="quick").settings
