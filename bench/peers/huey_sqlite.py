"""Huey on SQLite: WAL, fsync at every commit (synchronous FULL), fast polling, results off."""

# mypy: disable-error-code="import-not-found"
# (the peer is installed only in its own environment)

from __future__ import annotations

from huey import SqliteHuey

from bench.peers.huey_consumer import HueyPeer


class HueyOnSqlite(HueyPeer):
    def make_huey(self) -> SqliteHuey:
        return SqliteHuey("bench", filename=self.url.removeprefix("sqlite://"), results=False, fsync=True)


PEER = HueyOnSqlite
