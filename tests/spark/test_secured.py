"""Servers that let in only those who prove who they are: Kafka with TLS and SASL, PostgreSQL with TLS."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from certificates import Certificates
from postgres_server import PostgresServer
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from topics import Topics
from topologies import line, step

from foretide.errors import ConfigError
from foretide.kafka import Broker, Cluster, KafkaError
from foretide.kafka.broker import free_port
from foretide.spark import start
from foretide.topology import Topology

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

# Workers cannot import test modules, so what is defined here travels with the program.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EVENTS = 400


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


class SecuredBroker:
    """A broker with a second listener, for those who know a password."""

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        self._port = free_port()
        self._authority = str(certificates.authority)
        login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="tide" ;'
        plain, inner = free_port(), free_port()
        own = {
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},SECURED://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{inner}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{inner}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SECURED://127.0.0.1:{self._port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secured.plain.sasl.jaas.config": login,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.both),
        }
        self.broker = Broker(folder, port=plain, settings=own)

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    def client(self, password: str = "tide") -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": password,
            "ssl.ca.location": self._authority,
        }


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, kafka: Broker, certificates: Certificates
) -> Iterator[SecuredBroker]:
    made = SecuredBroker(tmp_path_factory.mktemp("secured"), certificates)
    with made.broker:
        yield made


def only_id(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["id"]}


def topology(secured: SecuredBroker, source: str, sink: str, password: str = "tide") -> Topology:
    place = {"kind": "kafka", "servers": secured.servers, "client": secured.client(password)}
    given = {"topic": source, "schema": "id long, text string", "ending": "latest"}
    return line(
        step("work", only_id, replicas=(1, 3, 2), schema="id long"),
        source={**place, **given},
        sink={**place, "topic": sink},
    )


def test_topics_behind_tls_and_a_password_are_read_and_written(
    spark: SparkSession, secured: SecuredBroker, tmp_path: Path
) -> None:
    topics = Topics(secured.broker)
    source, sink = topics.create(), topics.create()
    topics.send(source, 0, EVENTS)
    with start(topology(secured, source, sink), spark, tmp_path) as running:
        running.wait()
    assert Counter(row["id"] for row in topics.read(sink)) == Counter(range(EVENTS))


def test_a_wrong_password_is_named_at_once(spark: SparkSession, secured: SecuredBroker, tmp_path: Path) -> None:
    topics = Topics(secured.broker)
    source, sink = topics.create(), topics.create()
    with pytest.raises(KafkaError, match=r"sink 'out': expected Kafka at .* to let us in, got .*uthenticat.*password"):
        start(topology(secured, source, sink, "ebb"), spark, tmp_path)


def test_a_certificate_that_nobody_vouches_for_is_named(secured: SecuredBroker) -> None:
    client = {**secured.client()}
    del client["ssl.ca.location"]
    with pytest.raises(KafkaError, match=r"'x': expected Kafka at .* to let us in, got .*certificate"):
        Cluster(secured.servers, "'x'", 20.0, client).partitions("any")


@pytest.fixture(scope="module")
def encrypted(postgres: PostgresServer, certificates: Certificates) -> Iterator[str]:
    """Return the address of the server's loopback, which is encrypted while the tests run."""
    postgres.encrypt(certificates)
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        schema = postgres.new_schema()
        connection.execute(f"CREATE SCHEMA {schema}")
    yield f"{postgres.tcp_url()}?sslmode=verify-full&sslrootcert={certificates.authority}&schema={schema}"


def test_a_table_behind_tls_is_written(spark: SparkSession, encrypted: str, tmp_path: Path, write_trace: Any) -> None:
    made = line(
        step("work", only_id, replicas=(1, 3, 2), schema="id long"),
        source={"kind": "trace", "trace": write_trace(EVENTS / 2, EVENTS / 2), "until": "all"},
        sink={"kind": "postgres", "url": encrypted, "table": "results"},
    )
    with start(made, spark, tmp_path) as running:
        running.wait()
    plain, _, schema = encrypted.rpartition("&schema=")
    with psycopg.connect(plain) as connection:
        assert connection.pgconn.ssl_in_use
        found = connection.execute(f"SELECT id FROM {schema}.results").fetchall()
    assert Counter(number for (number,) in found) == Counter(range(EVENTS))


def test_a_server_whose_certificate_does_not_fit_is_refused(
    spark: SparkSession, encrypted: str, tmp_path: Path, write_trace: Any
) -> None:
    other = tmp_path / "other.crt"
    made_by = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other"]
    places = ["-keyout", str(tmp_path / "other.key"), "-out", str(other)]
    subprocess.run([*made_by, *places], check=True, capture_output=True)
    before, _, after = encrypted.partition("sslrootcert=")
    url = f"{before}sslrootcert={other}&schema={after.partition('&schema=')[2]}"
    made = line(
        step("work", only_id, schema="id long"),
        source={"kind": "trace", "trace": write_trace(10, 10), "until": "all"},
        sink={"kind": "postgres", "url": url},
    )
    with pytest.raises(ConfigError, match=r"sink 'out'.*certificate"):
        start(made, spark, tmp_path / "run")
