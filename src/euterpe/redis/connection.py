"""A client for Redis with the timeouts, pool and retries that the configuration names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from euterpe.redis.settings import RedisTuning

CLIENT_NAME: Final = "euterpe"
"""What `CLIENT LIST` shows."""
RETRY_PAUSE_S: Final = (0.02, 0.5)


class WriteTimeout:
    """A connection that has less, or more, time for sending than for an answer."""

    socket_timeout: float | None

    def __init__(self, *args: Any, write_timeout_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._write_timeout_s = write_timeout_s

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        """One task uses a connection at a time, so its one timeout can serve for both."""
        answer_s, self.socket_timeout = self.socket_timeout, self._write_timeout_s
        try:
            await super().send_packed_command(command, check_health)  # type: ignore[misc]  # of the connection behind us
        finally:
            self.socket_timeout = answer_s


def redis_client(url: str, tuning: RedisTuning, *, decode: bool = True) -> Redis:
    """`decode`: answers are text; else they are the bytes that Redis keeps."""
    first_s, longest_s = RETRY_PAUSE_S
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=tuning.pool_size,
        timeout=tuning.read_timeout_s,
        protocol=2,
        client_name=CLIENT_NAME,
        decode_responses=decode,
        encoding_errors="replace" if decode else "strict",
        socket_connect_timeout=tuning.dial_timeout_s,
        socket_timeout=tuning.read_timeout_s,
        retry=Retry(ExponentialBackoff(cap=longest_s, base=first_s), tuning.max_retries),
    )
    kind: type[Any] = pool.connection_class
    pool.connection_class = type(f"{kind.__name__}WithWriteTimeout", (WriteTimeout, kind), {})
    pool.connection_kwargs["write_timeout_s"] = tuning.write_timeout_s
    return Redis(connection_pool=pool)


async def open_idle(client: Redis, count: int) -> None:
    """Connections that are there when they are needed."""
    pool: Any = client.connection_pool
    idle = [await pool.get_connection() for _ in range(min(count, pool.max_connections))]
    for connection in idle:
        await pool.release(connection)
