"""All checks that fit: first what needs no database, then the database, Redis and what is in them.

What cannot be looked at is told, and the rest is looked at all the same.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from euterpe.backends.diagnosis import DatabaseProbe, redis_in_use
from euterpe.backends.engines import connect, engine_url_of, redis_tuning_of, sqlite_path
from euterpe.config import Config
from euterpe.config.loading import LoadedConfig
from euterpe.crypto import InvalidKeyring, PlaintextKeys
from euterpe.model.diagnosis.facts import AccountFacts
from euterpe.model.diagnosis.finding import Check, Finding, Severity, findings
from euterpe.model.errors import EuterpeError, Unsupported
from euterpe.service.doctor.checks import accounts, database, jobs, locks, machine, postgres, redis, sqlite, webhooks
from euterpe.service.doctor.machine import is_sqlite, machine_facts, with_file
from euterpe.transcode.credentials.keys import credential_keys

T = TypeVar("T")
CONFIGURATION: Final = "configuration"
MEND_IT: Final = "mend the file or the variable; `euterpe config show` shows where each value comes from"
REACHABLE: Final = "database_reachable"
ANSWER_S: Final = 30.0


async def examine(loaded: LoadedConfig, config_path: str | None) -> list[Finding]:
    """Looks only: nothing is migrated, made or changed."""
    config = loaded.config
    found = [_configuration(loaded, config_path)]
    found += findings(machine.CHECKS, await asyncio.to_thread(machine_facts, loaded, config_path))
    found += await _redis(config)
    url = engine_url_of(config)
    if _is_not_there(url):
        missing = f"there is no database at {sqlite_path(url)} yet"
        return [
            *found,
            Finding(REACHABLE, Severity.ERROR, missing, "`euterpe migrate` makes it, --engine names another"),
        ]
    backend = connect(url, payload_limit=config.engine.max_payload_bytes, redis=redis_tuning_of(config))
    try:
        async with asyncio.timeout(ANSWER_S):
            await backend.store.open()
            await backend.store.now_us()
    except (EuterpeError, OSError) as refused:
        await backend.store.close()
        next_step = "see engine.url (ENGINE_URL, --engine), and whether the server runs and knows this user"
        return [*found, Finding(REACHABLE, Severity.ERROR, _first_line(refused), next_step)]
    try:
        found.append(Finding(REACHABLE, Severity.OK, "the database answers"))
        try:
            probe = DatabaseProbe(backend.store)
        except Unsupported:
            return [*found, Finding("sql_database", Severity.OK, "there is none to look into from here")]
        return found + await _database(probe, url)
    finally:
        await backend.store.close()


def _configuration(loaded: LoadedConfig, config_path: str | None) -> Finding:
    if loaded.ignored:
        message = f"a role that needs it will not start: {'; '.join(map(str, loaded.ignored))}"
        return Finding(CONFIGURATION, Severity.ERROR, message, MEND_IT)
    if loaded.file_missing:
        return Finding(CONFIGURATION, Severity.WARNING, f"there is no file {config_path}", "name another with --config")
    return Finding(CONFIGURATION, Severity.OK, "the configuration can be read")


def _is_not_there(url: str) -> bool:
    return is_sqlite(url) and not Path(sqlite_path(url)).exists()


async def _redis(config: Config) -> list[Finding]:
    used = redis_in_use(config)
    if used is None:
        return []
    from euterpe.redis.inspecting import redis_facts

    address, holds_jobs = used
    return list(findings(redis.CHECKS, await redis_facts(address, redis_tuning_of(config), holds_jobs=holds_jobs)))


async def _database(probe: DatabaseProbe, url: str) -> list[Finding]:
    found = await _probed(locks.CHECKS, probe.locks)
    found += await _probed(database.CHECKS, probe.database)
    server = await _facts_or_none(probe.postgres)
    if server is not None:
        found += findings(postgres.CHECKS, server)
    file = await _facts_or_none(probe.sqlite)
    if file is not None:
        found += findings(sqlite.CHECKS, with_file(file, Path(sqlite_path(url))))
    found += await _probed(jobs.CHECKS, probe.jobs)
    found += await _probed(webhooks.CHECKS, probe.outbox)
    found += await _probed(accounts.CHECKS, lambda: _accounts(probe, url))
    return found


async def _probed(checks: Sequence[Check[T]], gather: Callable[[], Awaitable[T]]) -> list[Finding]:
    try:
        return list(findings(checks, await gather()))
    except EuterpeError as refused:
        return list(_not_probed(checks, refused))


async def _facts_or_none(gather: Callable[[], Awaitable[T | None]]) -> T | None:
    try:
        return await gather()
    except EuterpeError:
        return None


def _not_probed(checks: Sequence[Check[T]], refused: EuterpeError) -> Iterator[Finding]:
    for check in checks:
        message = f"could not be looked at: {_first_line(refused)}"
        yield Finding(check.name, Severity.WARNING, message, "fix the problems above first, then run the doctor again")


async def _accounts(probe: DatabaseProbe, url: str) -> AccountFacts:
    used = await probe.keks_used()
    here: frozenset[str] | None = None
    plaintext = False
    try:
        keys = credential_keys(url, os.environ, create=False)
    except InvalidKeyring:
        pass  # Nobody made a key yet, or it cannot be read: what is sealed tells whether that is bad.
    else:
        plaintext = isinstance(keys, PlaintextKeys)
        here = None if isinstance(keys, PlaintextKeys) else keys.kek_ids
    return AccountFacts(expiring=await probe.expiring_keys(), keks_used=used, keks_here=here, plaintext=plaintext)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).split("\n")[0]
