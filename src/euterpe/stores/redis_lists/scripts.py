"""The Lua scripts, run whole by Redis: what they do happens at once or not at all. Errors of Redis in our own words."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeVar, cast

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from euterpe.model.errors import EuterpeError, StoreUnavailable
from euterpe.redis.connection import open_idle, redis_client
from euterpe.redis.errors import unavailable
from euterpe.redis.pipelined import PipelinedRedis
from euterpe.redis.settings import RedisTuning
from euterpe.stores.redis_lists.commands import Command, Script
from euterpe.stores.redis_lists.settings import ListSettings

T = TypeVar("T")
log = logging.getLogger("euterpe.store")

Argument = bytes | str | int
NOT_OPEN: Final = "this queue is not open; use it inside `async with queue:`"
FOLDER: Final = Path(__file__).parent / "lua"
STAND_ALONE: Final = frozenset({"claim_one", "submit_one"})
READ_AT_ONCE: Final = 1_000
"""So many commands are put together before anything else of the process gets its turn."""
_LOST: Final = (OSError, TimeoutError, RedisError)


@cache
def source_of(name: str) -> tuple[str, str]:
    """A script with what most have in common in front, and its digest."""
    text = (FOLDER / f"{name}.lua").read_text()
    if name not in STAND_ALONE:
        text = (FOLDER / "common.lua").read_text() + text
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class RedisScripts:
    """One connection pool to one Redis, and the scripts under these names of keys."""

    def __init__(self, url: str, settings: ListSettings, tuning: RedisTuning) -> None:
        self.settings = settings
        self._url = url
        self._tuning = tuning
        self._client: Redis | None = None
        self._waiting: dict[str, PipelinedRedis] = {}
        self._hot: PipelinedRedis | None = None
        """Scripts go on a connection of their own: they are most of what is sent, and a pool costs more than them."""

    async def open(self) -> None:
        client = self._client = redis_client(self._url, self._tuning, decode=False)
        self._hot = PipelinedRedis(self._url, self._tuning)
        try:
            await self._look_at_server(client)
            await open_idle(client, self._tuning.min_idle)
        except BaseException as error:
            await self.close()
            if isinstance(error, _LOST):
                raise unavailable(error, wrote=False) from error
            raise

    async def close(self) -> None:
        client, self._client = self._client, None
        hot, self._hot = self._hot, None
        for waiting in self._waiting.values():
            await waiting.close()
        self._waiting.clear()
        if hot is not None:
            await hot.close()
        if client is not None:
            await client.aclose()

    @property
    def client(self) -> Redis:
        if self._client is None:
            raise EuterpeError(NOT_OPEN)
        return self._client

    async def run(self, script: Script[T], *arguments: Argument) -> T:
        """Run a script. One that Redis has forgotten, by a restart or SCRIPT FLUSH, is sent again."""
        text, digest = source_of(script.name)
        if self._hot is None:
            raise EuterpeError(NOT_OPEN)
        keys = self._keys_of(script)
        try:
            try:
                return cast(T, await self._hot.execute("EVALSHA", digest, len(keys), *keys, *arguments))
            except NoScriptError:
                return cast(T, await self._hot.execute("EVAL", text, len(keys), *keys, *arguments))
        except _LOST as error:
            raise unavailable(error, wrote=True) from error

    def _keys_of(self, script: Script[T]) -> tuple[str, ...]:
        """A script that stands alone is given the other names that it needs."""
        return (self.settings.prefix,) if script.name in STAND_ALONE else self.settings.script_keys

    async def run_after(
        self, waiter: str, wait: tuple[Argument, ...], wait_s: float, script: Script[T], *arguments: Argument
    ) -> T | None:
        """Run a script as soon as a blocking command has waited; None where Redis had forgotten the script, and has it
        again. Each waiter has a connection of its own. Nothing is tried twice: nobody knows what a lost answer held."""
        if self._hot is None:
            raise EuterpeError(NOT_OPEN)
        if waiter not in self._waiting:
            self._waiting[waiter] = PipelinedRedis(self._url, self._tuning)
        keys = self._keys_of(script)
        text, digest = source_of(script.name)
        command = ("EVALSHA", digest, len(keys), *keys, *arguments)
        try:
            waited, answer = await self._waiting[waiter].execute_after(wait, command, wait_s)
            if isinstance(answer, NoScriptError):
                await self._hot.execute("SCRIPT", "LOAD", text)
                return None
            if isinstance(answer, Exception):
                raise answer
        except _LOST as error:
            raise unavailable(error, wrote=True) from error
        if isinstance(waited, Exception):
            # Nobody waited, and who asks again at once would ask for ever.
            await asyncio.sleep(wait_s)
        return cast(T, answer)

    async def read(self, command: Command[T], *arguments: Argument) -> T:
        """A command that changes nothing, or nothing that a second try would not."""
        try:
            answer: T = await self.client.execute_command(command.name, *arguments)  # type: ignore[no-untyped-call]  # redis-py's
            return answer
        except _LOST as error:
            raise unavailable(error, wrote=False) from error

    async def read_all(self, command: Command[T], each: Sequence[tuple[Argument, ...]]) -> list[T]:
        """The same command with each of these arguments, in a round trip for every thousand."""
        answers: list[T] = []
        for answer in await self._read_each(command, each):
            if isinstance(answer, RedisError):
                raise unavailable(answer, wrote=False) from answer
            answers.append(answer)
        return answers

    async def read_fitting(self, command: Command[T], each: Sequence[tuple[Argument, ...]]) -> list[T | None]:
        """The same; None for a key of another kind, which must not hide what the others hold."""
        answers: list[T | None] = []
        for answer in await self._read_each(command, each):
            if isinstance(answer, RedisError) and not str(answer).startswith("WRONGTYPE"):
                raise unavailable(answer, wrote=False) from answer
            answers.append(None if isinstance(answer, RedisError) else answer)
        return answers

    async def _read_each(self, command: Command[T], each: Sequence[tuple[Argument, ...]]) -> list[T | RedisError]:
        answers: list[T | RedisError] = []
        for at in range(0, len(each), READ_AT_ONCE):
            try:
                async with self.client.pipeline(transaction=False) as pipe:
                    for arguments in each[at : at + READ_AT_ONCE]:
                        pipe.execute_command(command.name, *arguments)
                    answers += await pipe.execute(raise_on_error=False)
            except _LOST as error:
                raise unavailable(error, wrote=False) from error
        return answers

    async def _look_at_server(self, client: Redis) -> None:
        said = await client.info("cluster")
        if said.get("cluster_enabled"):
            raise EuterpeError(
                "this Redis is a node of a Redis Cluster, which the redis:// engine does not support; name a single "
                "primary (it may have replicas), or use Postgres"
            )
        memory = await client.info("memory")
        policy = memory.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            log.warning(
                "Redis may evict jobs when its memory is full; set its maxmemory-policy to noeviction",
                extra={"error_code": policy},
            )


def key_taken(said: str) -> StoreUnavailable:
    """A key that should be a list holds something else."""
    return StoreUnavailable(
        f"the Redis key {said}: another program uses it. Rename or delete it, or configure another name", "WRONGTYPE"
    )
