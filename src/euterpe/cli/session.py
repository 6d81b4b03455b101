"""What every command shares: which configuration, which database, and how to open it for one question."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import click

from euterpe.backends.database import no_database
from euterpe.backends.engines import (
    Backend,
    connect,
    engine_url_of,
    is_control_plane,
    is_redis,
    make_room,
    redis_tuning_of,
    sqlite_path,
)
from euterpe.cli.output import note
from euterpe.config import Config, ConfigError
from euterpe.config.loading import LoadedConfig, load
from euterpe.model.errors import InvalidInput

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])


def needed_by_commands(key: str) -> bool:
    """What a command that asks the database one question reads of the configuration."""
    return key.startswith("engine.") or key == "worker.consume"


def needed_on_redis(key: str) -> bool:
    """What else such a command reads where the jobs are in Redis lists."""
    return needed_by_commands(key) or key.startswith("redis.")


@dataclass
class CliSession:
    """The global options. `engine` is what `--engine` said; it wins over the environment and the file."""

    config_path: str | None = None
    engine: str | None = None
    needed: Callable[[str], bool] = needed_by_commands
    """Which keys must make sense: a variable of another role, or of another program, stops nobody."""

    @cached_property
    def loaded(self) -> LoadedConfig:
        loaded = self._load(self.needed)
        if self.needed is needed_by_commands and is_redis(engine_url_of(loaded.config)):
            return self._load(needed_on_redis)
        return loaded

    def _load(self, needed: Callable[[str], bool]) -> LoadedConfig:
        environ = dict(os.environ)
        if self.engine is None:
            return load(self.config_path, environ, needed)
        environ["EUTERPE_ENGINE_URL"] = self.engine
        try:
            return load(self.config_path, environ, needed)
        except ConfigError as error:
            problems = [
                replace(each, source="--engine") if each.key == "engine.url" else each for each in error.problems
            ]
            raise ConfigError(problems) from None

    @cached_property
    def config(self) -> Config:
        if self.loaded.file_missing and self.needed is needed_by_commands:
            note(f"euterpe: there is no file {self.config_path}; the environment and the defaults are used")
        return self.loaded.config

    @property
    def url(self) -> str:
        return engine_url_of(self.config)

    def ask(self, question: Callable[[Backend], Awaitable[T]], *, create: bool = False) -> T:
        """Open the database, ask, close it. Only `create` may make what is not there yet: a SQLite file,
        or tables on a server, which may be an application's own."""

        async def asking() -> T:
            async with self.opened(create=create) as backend:
                return await question(backend)

        return asyncio.run(asking())

    @asynccontextmanager
    async def opened(self, *, create: bool = False) -> AsyncIterator[Backend]:
        prepare_folder(self.url, create=create)
        backend = connect(
            self.url, payload_limit=self.config.engine.max_payload_bytes, redis=redis_tuning_of(self.config)
        )
        try:
            await backend.open(migrate=create or urlsplit(self.url).scheme in ("sqlite", "libsql"))
            yield backend
        finally:
            await backend.close()


def prepare_folder(url: str, *, create: bool) -> None:
    """Room for whoever may create the database; a mere look must not leave an empty one behind."""
    if create:
        make_room(url)
    elif urlsplit(url).scheme == "sqlite" and not Path(sqlite_path(url)).exists():
        raise InvalidInput(
            "engine",
            f"there is no database at {sqlite_path(url)} yet; `euterpe --role=all` makes it, --engine names another",
        )


def _use_engine(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(CliSession).engine = value


def _use_config(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(CliSession).config_path = value


def database_options(function: Function) -> Function:
    """`--engine` and `--config`, which may stand before the command or behind it."""
    for option in (
        click.option(
            "--config",
            metavar="PATH",
            expose_value=False,
            is_eager=True,
            callback=_use_config,
            help="The configuration file (YAML); defaults apply without it.",
        ),
        click.option(
            "--engine",
            metavar="URL",
            expose_value=False,
            is_eager=True,
            callback=_use_engine,
            help="The database, or ENGINE_URL; default: sqlite:///.euterpe/jobs.db",
        ),
    ):
        function = option(function)
    return function


def sql_only(function: Function) -> Function:
    """For a command on tables of the SQL database: on any other queue it says so before it does anything."""

    @wraps(function)
    def checked(session: CliSession, *args: object, **kwargs: object) -> object:
        if is_control_plane(session.url) or is_redis(session.url):
            raise no_database()
        return function(session, *args, **kwargs)

    return cast(Function, checked)


def json_option(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for a program to read.")(function)


def yes_option(function: Function) -> Function:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(function)
