"""Real Postgres and Redis servers out of wheels: shared by the session, or private to a fault test."""

from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerFailed, ServerProcess
from tests.servers.redis import RedisServer

__all__ = ["PostgresServer", "RedisServer", "ServerFailed", "ServerProcess"]
