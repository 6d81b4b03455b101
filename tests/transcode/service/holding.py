"""Attempts that stop where a test wants them to, until they are cancelled or killed: by the metadata of their job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from euterpe.transcode.handler import job, uploading

PLACES = ("fetching", "processing", "uploading", "published")
"""The stages, and the moment after the first output is there."""


def hold_attempts(patch: pytest.MonkeyPatch, reached: Callable[[str], None]) -> None:
    """A job with metadata {"hold": PLACE} never gets past it in its first attempt. `staged` is one more place: all is
    uploaded, and nothing is published."""
    enter, publish = job._Attempt._enter, uploading.Uploads._publish
    wanted: dict[object, str] = {}

    async def held_enter(attempt: Any, stage: str) -> None:
        await enter(attempt, stage)
        place = attempt._ctx.tags.get("hold") if attempt._ctx.attempt == 1 else None
        wanted[attempt._attempt] = place or ""
        if place == stage:
            reached(stage)
            await asyncio.Event().wait()

    async def held_publish(uploads: Any, *arguments: Any) -> Any:
        if wanted.get(uploads._attempt) == "staged":
            reached("staged")
            await asyncio.Event().wait()
        stored = await publish(uploads, *arguments)
        if wanted.get(uploads._attempt) == "published":
            reached("published")
            await asyncio.Event().wait()
        return stored

    patch.setattr(job._Attempt, "_enter", held_enter)
    patch.setattr(uploading.Uploads, "_publish", held_publish)
