"""Kafka: a broker for developers and tests, a client that waits for brokers, values, the log of a queued edge.

May import `transport`, whose contract its log keeps; never Spark.
"""

from foretide.kafka.broker import Broker, BrokerInfo, default_directory, find_broker, free_port
from foretide.kafka.client import Cluster, Offsets, confluent
from foretide.kafka.errors import BrokerError, DataLossError, KafkaError, TopicError
from foretide.kafka.jars import KAFKA_VERSION, cache_directory, fetch
from foretide.kafka.log import KafkaLog, KafkaLogSettings
from foretide.kafka.segments import KafkaPiece, KafkaSegmentWriter

__all__ = [
    "KAFKA_VERSION",
    "Broker",
    "BrokerError",
    "BrokerInfo",
    "Cluster",
    "DataLossError",
    "KafkaError",
    "KafkaLog",
    "KafkaLogSettings",
    "KafkaPiece",
    "KafkaSegmentWriter",
    "Offsets",
    "TopicError",
    "cache_directory",
    "confluent",
    "default_directory",
    "fetch",
    "find_broker",
    "free_port",
]
