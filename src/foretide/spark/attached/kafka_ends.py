"""End offsets of the topics that a query reads, asked for by the driver between batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from foretide.errors import ForetideError
from foretide.kafka import Cluster
from foretide.spark.attached.query import AttachedQuery

__all__ = ["EndOffsets", "client_options"]

# The longest that one question may take, and the pauses after questions that were not answered.
_REQUEST_S, _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.8, 2.0, 60.0
_PREFIX = "kafka."
_SERVERS = "bootstrap.servers"
# What only Java's client has; of a log-in by JAAS, name and password can be told.
_JAAS = "sasl.jaas.config"
_WORD = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
_OF_READING = ("max.poll.records", "fetch.", "key.", "value.", "auto.offset.reset", "enable.auto.commit", "group.")


def client_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's Kafka source as settings of our client: how to reach the brokers, no more.

    >>> client_options({"kafka.bootstrap.servers": "a:9092", "subscribe": "orders", "kafka.max.poll.records": "9"})
    {'bootstrap.servers': 'a:9092'}
    >>> jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="s3";'
    >>> client_options({"kafka.sasl.jaas.config": jaas, "kafka.sasl.mechanism": "PLAIN"})
    {'sasl.username': 'me', 'sasl.password': 's3', 'sasl.mechanism': 'PLAIN'}
    """
    found: dict[str, str] = {}
    for option, value in options.items():
        if not option.lower().startswith(_PREFIX):
            continue
        name = option[len(_PREFIX) :].lower()
        if name == _JAAS:
            found |= {f"sasl.{word}": text for word, text in _WORD.findall(value)}
        elif not name.startswith(_OF_READING):
            found[name] = value
    return found


@dataclass
class _Brokers:
    """The brokers of some queries, and when to ask them next."""

    cluster: Cluster
    queries: list[AttachedQuery] = field(default_factory=list)
    next_s: float = -float("inf")
    pause_s: float = _FIRST_PAUSE_S
    away: bool = False


class EndOffsets:
    """Asks brokers how far topics have grown, once for all queries that read them.

    A query counts as live while its brokers answer. Otherwise what its reports say stands in.

    Parameters
    ----------
    tell : callable
        Hears, with a kind and a message, when brokers cannot be asked, and when they can be asked again.
    more : mapping of str to str
        Settings of the client in addition to what the queries' options say, or in their place.
    make : callable, optional
        Makes a cluster of servers and settings.
    """

    def __init__(
        self,
        tell: Callable[[str, str], None],
        more: Mapping[str, str] | None = None,
        make: Callable[[str, Mapping[str, str]], Cluster] | None = None,
    ) -> None:
        self._tell, self._more = tell, dict(more or {})
        self._make = make or (lambda servers, options: Cluster(servers, "attach", _REQUEST_S, options))
        self._brokers: dict[tuple[tuple[str, str], ...], _Brokers] = {}

    def watch(self, query: AttachedQuery, options: Mapping[str, str]) -> None:
        """Ask for the end offsets of a query from now on; its options say where."""
        given = {**client_options(options), **self._more}
        servers = given.pop(_SERVERS, "")
        if not servers:
            return
        self.forget(query)
        key = ((_SERVERS, servers), *sorted(given.items()))
        brokers = self._brokers.get(key)
        if brokers is None:
            brokers = self._brokers[key] = _Brokers(self._make(servers, given))
        brokers.queries.append(query)

    def forget(self, query: AttachedQuery) -> None:
        """Ask no longer for a query."""
        query.live = False
        for brokers in self._brokers.values():
            brokers.queries = [one for one in brokers.queries if one is not query]

    def ask(self, now_s: Callable[[], float]) -> None:
        """Ask all brokers whose turn it is; never raises."""
        for brokers in self._brokers.values():
            wanted = [query for query in brokers.queries if query.active and query.last is not None]
            if wanted and now_s() >= brokers.next_s:
                self._ask(brokers, wanted, now_s)

    def _ask(self, brokers: _Brokers, queries: Iterable[AttachedQuery], now_s: Callable[[], float]) -> None:
        # Each source counts, also two that read the same topic.
        places = {query.id: _places(query) for query in queries}
        asked_at_s = now_s()
        try:
            ends = brokers.cluster.ends({place for wanted in places.values() for place in wanted}, _REQUEST_S)
            totals = {query: sum(ends[place] for place in wanted) for query, wanted in places.items() if wanted}
        except Exception as error:  # the client library may be missing, or refuse a setting
            self._away(brokers, error, now_s())
            return
        if brokers.away:
            self._tell("kafka.back", f"{brokers.cluster.servers}: end offsets can be asked for again")
        brokers.away, brokers.pause_s = False, _FIRST_PAUSE_S
        at_s = (asked_at_s + now_s()) / 2
        for query in queries:
            if query.id in totals:
                query.live = True
                query.know_end(at_s, totals[query.id])

    def _away(self, brokers: _Brokers, error: Exception, now_s: float) -> None:
        for query in brokers.queries:
            query.live = False
        if not brokers.away:
            words = str(error) if isinstance(error, ForetideError) else f"{type(error).__name__}: {error}"
            self._tell(
                "kafka.away",
                f"{brokers.cluster.servers}: end offsets cannot be asked for, so that what comes is known by the "
                f"reports of batches only: {words}",
            )
        brokers.away, brokers.next_s = True, now_s + brokers.pause_s
        brokers.pause_s = min(2 * brokers.pause_s, _LONGEST_PAUSE_S)


def _places(query: AttachedQuery) -> list[tuple[str, int]]:
    """Return the partitions that a query reads, as its last report says; none where one of its sources is not Kafka."""
    assert query.last is not None
    sources = query.last.sources
    return [place for source in sources for place in source.partitions] if all(one.kafka for one in sources) else []
