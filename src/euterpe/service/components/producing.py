"""The producer part of a role, from the configuration to its end."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from euterpe.backends.engines import RedisLists, is_control_plane, redis_lists_of, redis_tuning_of
from euterpe.backends.rate_limits import shared_rate_limit
from euterpe.config import Config, ProducerConfig
from euterpe.model.errors import InvalidInput
from euterpe.model.failures.backoff import Backoff
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.submitting.submission import Submission
from euterpe.ports import RateLimit
from euterpe.producer.globs import EVERYTHING, Globs, media_globs
from euterpe.producer.jobs import PriorityByExtension, file_jobs, level_of
from euterpe.producer.pacing import OwnRate, Unlimited
from euterpe.producer.producer import Producer, ProducerSettings
from euterpe.producer.tree import FoundFile, Tree
from euterpe.queue.queue import Queue, core_of

log: Final = logging.getLogger("euterpe.system")
RESERVED: Final = (".euterpe-staging", "requesters")
"""Folders of transcoding below the local root: its drafts, and the files of other requesters."""


def files_are_produced(config: Config) -> bool:
    return bool(config.producer.scan_dir)


async def produce(
    config: Config, queue: Queue, tree: Tree, make_job: Callable[[FoundFile], Submission], stop: asyncio.Event
) -> None:
    """Submit jobs for files until told to stop."""
    options = config.producer
    recipe = ",".join((*options.presets, options.output_prefix)) if options.presets else ""
    settings = ProducerSettings(
        scan_interval_s=options.scan_interval_us / 1e6,
        settle_s=options.settle_us / 1e6,
        per_s=options.rate_limit_per_sec,
    )
    async with _rate_of(config, queue) as rate:
        producer = Producer(tree, make_job, core_of(queue).store, settings, rate, recipe)
        log.info("looking for files to enqueue every %g s", settings.scan_interval_s)
        await producer.run(stop)


def tree_of(config: Config) -> Tree:
    """The scanned folder without what we write ourselves. Raises OSError where it is no folder that can be listed."""
    settings = config.producer
    root = Path(settings.scan_dir).resolve(strict=True)
    os.scandir(root).close()
    local_root = Path(config.transcode.local_root).resolve()
    names = (*RESERVED, settings.output_prefix.rstrip("/")) if settings.presets else ()
    own = [local_root / name for name in names]
    inside = [folder.relative_to(root).as_posix() for folder in own if folder.is_relative_to(root)]
    takes_media = settings.presets and settings.include_globs == EVERYTHING
    include = media_globs() if takes_media else settings.include_globs
    return Tree(root, Globs(include, settings.exclude_globs), tuple(inside))


def job_maker(config: Config, queue: Queue, tree: Tree) -> Callable[[FoundFile], Submission]:
    """Raises InvalidInput for a preset that is not known, and for a priority without a list."""
    settings, ranking = config.producer, config.worker.priorities
    priority = PriorityByExtension(settings.default_priority, settings.high_priority_exts)
    if not settings.presets:
        lists = redis_lists_of(core_of(queue).backend_url)
        if lists is None:
            return file_jobs(tree.root, settings.job_type, priority, ranking, lambda _priority: settings.queue)
        if settings.default_priority not in lists.by_priority:
            raise InvalidInput("producer.default_priority", "has no list among those that engine.url names")
        by_priority = lists.by_priority.__getitem__
        return _with_configured_retries(lists, file_jobs(tree.root, settings.job_type, priority, ranking, by_priority))
    from euterpe.transcode.file_jobs import FileTranscodes

    scanned = tree.root.relative_to(Path(config.transcode.local_root).resolve()).as_posix()
    transcodes = FileTranscodes(
        "" if scanned == "." else scanned, settings.output_prefix, settings.presets, config.transcode.queue
    )

    def make(file: FoundFile) -> Submission:
        level = level_of(priority.name_of(file.path), ranking)
        return transcodes.submission(file.path, int(level), keeps_extension=file.shares_stem)

    return make


def _with_configured_retries(
    lists: RedisLists, make: Callable[[FoundFile], Submission]
) -> Callable[[FoundFile], Submission]:
    """`worker.max_retries` and `worker.backoff`, which are for Redis lists."""
    retry = RetryPolicy(Backoff(initial_us=lists.backoff_base_us, max_us=lists.backoff_max_us, jitter=0.0))
    budget = {"max_attempts": 1 + lists.max_retries, "retry": retry}
    return lambda file: msgspec.structs.replace(make(file), **budget)


@asynccontextmanager
async def _rate_of(config: Config, queue: Queue) -> AsyncIterator[RateLimit]:
    settings = config.producer
    if not settings.rate_limit_per_sec:
        yield Unlimited()
    elif is_control_plane(queue.url):
        yield OwnRate(settings.rate_limit_per_sec)
    else:
        lists = redis_lists_of(core_of(queue).backend_url)
        async with shared_rate_limit(
            core_of(queue).store,
            rate_limit_key(config, lists),
            settings.rate_limit_per_sec,
            lists.redis_url if lists else None,
            redis_tuning_of(config),
        ) as rate:
            yield rate


def rate_limit_key(config: Config, lists: RedisLists | None) -> str:
    """Installations that share a Redis by prefixes share no limit, unless they are told to."""
    key, default = config.producer.rate_limit_key, ProducerConfig().rate_limit_key
    return key if lists is None or key != default else f"{lists.prefix}:rate_limit:producer"
