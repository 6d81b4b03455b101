"""What is sent to Redis, with the type of its answer: commands, and the scripts in `lua/` by the names of their files.

Redis answers with lists where a tuple stands here: then the script says how many there are, and of what kind each is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

Record = dict[bytes, bytes]
Answer_co = TypeVar("Answer_co", covariant=True)


@dataclass(frozen=True)
class Command(Generic[Answer_co]):
    """A command of Redis that answers this."""

    name: str


@dataclass(frozen=True)
class Script(Generic[Answer_co]):
    """A script of ours that answers this."""

    name: str


GET: Final = Command[bytes | None]("GET")
HDEL: Final = Command[int]("HDEL")
HGET: Final = Command[bytes | None]("HGET")
HGETALL: Final = Command[Record | list[bytes]]("HGETALL")
HMGET: Final = Command[list[bytes | None]]("HMGET")
LINDEX: Final = Command[bytes | None]("LINDEX")
LLEN: Final = Command[int]("LLEN")
LPOS: Final = Command[int | None]("LPOS")
LRANGE: Final = Command[list[bytes]]("LRANGE")
PING: Final = Command[bool]("PING")
SADD: Final = Command[int]("SADD")
SCAN: Final = Command[tuple[int, list[bytes]]]("SCAN")
SMEMBERS: Final = Command[set[bytes]]("SMEMBERS")
SREM: Final = Command[int]("SREM")
TIME: Final = Command[tuple[int, int]]("TIME")
ZRANGE_WITH_SCORES: Final = Command[list[bytes | tuple[bytes, float]]]("ZRANGE")
ZRANGEBYSCORE: Final = Command[list[bytes]]("ZRANGEBYSCORE")
ZREM: Final = Command[int]("ZREM")

ADVANCE: Final = Script[list[bytes]]("advance")
CLAIM_ONE: Final = Script[bytes | int | None]("claim_one")
DEAD_LETTER_FAILED: Final = Script[int]("dead_letter_failed")
END_WAITING: Final = Script[list[bytes]]("end_waiting")
EXPIRE_KEYS: Final = Script[tuple[int, int]]("expire_keys")
HEARTBEAT: Final = Script[list[tuple[bytes, bytes]]]("heartbeat")
ID_IN: Final = Script[bytes]("id_in")
LOST: Final = Script[tuple[int, list[bytes], list[bytes]]]("lost")
PROMOTE: Final = Script[tuple[int, list[bytes]]]("promote")
PRUNE: Final = Script[tuple[int, int]]("prune")
PRUNE_TOMBSTONES: Final = Script[int]("prune_tombstones")
PURGE: Final = Script[list[bytes]]("purge")
REAP_ENTRY: Final = Script[bytes]("reap_entry")
REGISTER: Final = Script[None]("register")
REQUEST_CANCEL: Final = Script[int]("request_cancel")
RETRY_FAILED: Final = Script[int]("retry_failed")
SUBMIT: Final = Script[list[list[bytes]]]("submit")
SUBMIT_ONE: Final = Script[bytes | None]("submit_one")
TURN: Final = Script[tuple[bytes, list[bytes], bytes | list[list[Any]], list[bytes], int]]("turn")
UPDATE: Final = Script[int]("update")
WAKE: Final = Script[None]("wake")


def record_of(answer: Record | list[bytes]) -> Record:
    """Redis tells a hash as pairs in one list where nobody has put them together."""
    return answer if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2], strict=True))
