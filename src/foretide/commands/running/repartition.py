"""``foretide repartition``: a run's state in another number of partitions."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from foretide.state.repartition import Repartitioned
    from foretide.store.workspace import Workspace

__all__ = ["repartition"]


def repartition(
    run: Annotated[str, typer.Argument(help="The directory of the run, or its URI: its --path.", metavar="DIR|URI")],
    partitions: Annotated[int, typer.Option(min=1, max=4096, help="How many partitions its state is to have.")],
    operator: Annotated[
        str | None, typer.Argument(help="The operator; not needed where one alone keeps state.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Divide the state of an operator into more partitions, or fewer, while its run rests.

    No more replicas work on a state than it has partitions, and a run keeps the number that it began with. This writes
    the state anew, compares it with what was, and puts it in place at once: killed at any point, it leaves the old
    state or the new one. Then write [bold]state_partitions=N[/] in the topology, and start the run again.

    It takes states that Foretide keeps by key, wherever they are, and those of operators on DataFrames, which Spark
    keeps, where their checkpoint is on a disk.

    [bold]Example:[/] foretide repartition run fraud --partitions 128

    [bold]What a run keeps by key:[/] foretide state run
    """
    from foretide.errors import ConfigError
    from foretide.state.reading import known_states
    from foretide.state.repartition import repartition_state, stages_of_states
    from foretide.store.workspace import Workspace

    workspace = Workspace.at(run)
    own, stages = known_states(run), stages_of_states(workspace)
    if not own and not stages:
        raise ConfigError("DIR", expected="the --path of a run whose operators keep state", got=run)
    chosen = _chosen(operator, [*own, *stages])
    with _alone(workspace):
        if chosen in own:
            done = repartition_state(run, chosen, partitions)
        else:
            done = _by_spark(workspace, stages[chosen], chosen, partitions)
    if as_json:
        typer.echo(json.dumps(asdict(done)))
    else:
        _tell(done, ours=chosen in own)


@contextmanager
def _alone(workspace: Workspace) -> Iterator[None]:
    """Let nobody run there meanwhile, on this machine, and on any where the run is not on a disk."""
    hold = workspace.hold(alone=True)
    try:
        if not workspace.shared:
            yield
            return
        from foretide.spark.driver.reign import Reign

        reign = Reign(workspace.depot, alone=True)
        try:
            yield
        finally:
            reign.release()
    finally:
        hold.release()


def _chosen(operator: str | None, known: Sequence[str]) -> str:
    from foretide.errors import ConfigError

    if operator in known:
        return str(operator)
    if operator is None and len(known) == 1:
        return known[0]
    close = difflib.get_close_matches(operator or "", known, n=1)
    raise ConfigError(
        "OPERATOR",
        expected=f"one that keeps state: {', '.join(known)}",
        got=operator or "none",
        remedy=f"did you mean {close[0]!r}?" if close else "name one of them",
    )


def _by_spark(workspace: Workspace, stage: str, operator: str, partitions: int) -> Repartitioned:
    from foretide.errors import ConfigError

    if workspace.shared:
        raise ConfigError(
            f"state of operator {operator!r}",
            expected="a checkpoint in a directory of this machine, since Spark keeps it",
            got=f"a run in {workspace.shared}",
            remedy="keep its partitions, or start a run of its own with other state_partitions=",
        )
    from foretide.spark.driver.repartition import repartition_checkpoint
    from foretide.spark.session.builder import create_session
    from foretide.spark.session.logs import quiet_start

    with quiet_start():
        spark = create_session("local[*]", "foretide-repartition")
    try:
        return repartition_checkpoint(spark, workspace, stage, operator, partitions)
    finally:
        spark.stop()


def _tell(done: Repartitioned, *, ours: bool) -> None:
    what = "keys" if ours else "rows of state"
    if done.before == done.after:
        typer.echo(f"{done.operator} has {done.after} partitions already, with {done.keys:,} {what}")
        return
    typer.echo(f"{done.operator}: {done.before} partitions became {done.after}, with {done.keys:,} {what} as before")
    must = "" if ours else "where it declares another number, "
    typer.echo(f"{must}write state_partitions={done.after} in its topology before the run goes on")
