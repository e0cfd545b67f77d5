"""``foretide advise``: what past runs of a Spark application would have cost, from its event logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretide.commands.group import check_writable, console_for, write_file

if TYPE_CHECKING:
    from foretide.advise.advice import Advice, Wanted
    from foretide.commands.advise_view import AdviseView
    from foretide.eventlogs.files import EventLog

__all__ = ["advise"]

_WIDE = 120


def advise(
    eventlogs: Annotated[
        list[Path],
        typer.Argument(
            metavar="EVENTLOG...",
            help="Event logs of Spark: files (also compressed), rolling folders, or what spark.eventLog.dir names.",
        ),
    ],
    executors: Annotated[
        str | None,
        typer.Option(
            help="The fewest and the most executors, such as 1:4; else from 1 to the most that the log has.",
            metavar="N:M",
        ),
    ] = None,
    slo: Annotated[
        str | None,
        typer.Option(help="A promise such as 'p95<10s', kept with the fewest executors.", metavar="pNN<TIME"),
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", "--planner", help="Who decides, as in 'foretide' or 'pasps:lr'.")
    ] = None,
    forecaster: Annotated[str | None, typer.Option(help="Who looks ahead, for a policy that needs it.")] = None,
    td: Annotated[float | None, typer.Option(help="Seconds between two decisions; 5 unless given.")] = None,
    lead: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=600.0, help="Seconds that an executor takes to come; else what the first ones took in the log."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings as for foretide attach.", metavar="TOML", envvar="FORETIDE_CONFIG")
    ] = None,
    html_out: Annotated[
        Path | None, typer.Option("--html", help="Write a report with plots.", metavar="OUT.html")
    ] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write the figures to this file; - prints it.", metavar="OUT")
    ] = None,
) -> None:
    """Say what past runs paid in executor-seconds, and what they would have paid if Foretide had scaled them.

    It reads what Spark itself has written (spark.eventLog.enabled): no change to the job, no cluster, no Spark here.
    How long batches take is learnt from the log; then the policy decides in simulated time, as foretide attach would
    have, and the same rows come through the same queries. The latency that this would have cost stands beside the
    savings, and how well the model finds the latency that there really was.

    Logs of Spark 3 and 4 are read: plain or compressed (zstd, lz4, snappy, gzip), rolling, still being written or cut
    short, which is then said.

    [bold]Example:[/] foretide advise /var/log/spark/app-20260101120000-0001 --html advice.html

    [bold]With a promise, and other bounds:[/] foretide advise eventlog_v2_app-1/ --executors 2:20 --slo 'p95<30s'
    """
    from foretide.advise.advice import Wanted
    from foretide.commands.advise_view import AdviseView, advice_view
    from foretide.commands.running.attach_request import AttachRequest
    from foretide.eventlogs.files import find_logs

    for path, option in ((html_out, "--html"), (json_out, "--json")):
        check_writable(path, option)
    request = AttachRequest(executors=executors, slo=slo, policy=policy, forecaster=forecaster, td_s=td, config=config)
    bounded = executors is not None or request.values.control.executors is not None
    wanted = Wanted(request.values.control, request.values.executors if bounded else None, lead)
    logs = [log for path in eventlogs for log in find_logs(path)]
    console = console_for(json_out, _WIDE)
    with AdviseView(console, logs) as view:
        found = _advice(logs, wanted, view)
    console.print(advice_view(found))
    if json_out is not None:
        write_file(json_out, _json(found), "--json")
    if html_out is not None:
        from foretide.report.advice import advice_page

        write_file(html_out, advice_page(found), "--html")


def _advice(logs: list[EventLog], wanted: Wanted, view: AdviseView) -> list[Advice]:
    """Return the advice for every log; one that cannot be used is told of, and is an error if none can."""
    from foretide.advise.advice import advise as advise_on
    from foretide.errors import ForetideError
    from foretide.eventlogs.application import read_application

    found: list[Advice] = []
    for number, log in enumerate(logs):
        try:
            application = read_application(log, view.reading(number))
            found.append(advise_on(application, wanted, view.trying(number)))
        except ForetideError as error:
            if len(logs) == 1 or (number == len(logs) - 1 and not found):
                raise
            view.skip(str(error))
    return found


def _json(found: list[Advice]) -> str:
    paid_s, foretold_s = sum(one.paid_s for one in found), sum(one.foretold_s for one in found)
    data = {
        "applications": [one.to_data() for one in found],
        "executor_seconds": {"then": round(paid_s, 1), "foretold": round(foretold_s, 1)},
        "saved": round(1 - foretold_s / paid_s, 4) if paid_s else 0.0,
    }
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
