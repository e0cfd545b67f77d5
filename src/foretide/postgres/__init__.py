"""PostgreSQL: reaching a server, and rows as it takes them in bulk.

May import `errors` only.
"""

from foretide.postgres.connection import (
    PostgresAddress,
    connect,
    driver,
    is_passing,
    is_postgres,
    reason,
    remedy,
    without_password,
)

__all__ = [
    "PostgresAddress",
    "connect",
    "driver",
    "is_passing",
    "is_postgres",
    "reason",
    "remedy",
    "without_password",
]
