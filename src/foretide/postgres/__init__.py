"""PostgreSQL: reaching a server, and rows as it takes them in bulk.

May import `errors` only.
"""

from foretide.postgres.connection import (
    PostgresAddress,
    connect,
    driver,
    is_postgres,
    is_transient,
    reason,
    remedy,
    without_password,
)

__all__ = [
    "PostgresAddress",
    "connect",
    "driver",
    "is_postgres",
    "is_transient",
    "reason",
    "remedy",
    "without_password",
]
