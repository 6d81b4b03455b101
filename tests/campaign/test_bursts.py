"""Which charged attempts count as unbegun, and of whom."""

from __future__ import annotations

from pathlib import Path

import pytest

import euterpe
from tests.campaign.bursts import Ends, charged_in, unbegun
from tests.worker.inline import working

SLOTS = 1


@pytest.mark.parametrize(
    ("killed", "frozen", "told"),
    [
        ((), (), ["2 attempts of gone were charged and had not begun"]),
        (("gone",), (), ["2 attempts of gone were charged and had not begun"]),
        ((), ("gone",), []),
    ],
)
async def test_an_attempt_without_a_line_in_the_journal_had_not_begun(
    sqlite_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed: tuple[str, ...],
    frozen: tuple[str, ...],
    told: list[str],
) -> None:
    monkeypatch.setenv("POD_NAME", "gone")
    queue, begun = euterpe.Queue(sqlite_url), tmp_path / "begun"

    @queue.job("t")
    async def t(ctx: euterpe.Context) -> None:
        if ctx.job_id == first.id:
            begun.write_text(f"{ctx.attempt_id}\n")

    async with working(queue):
        first, *others = await queue.submit_many([t.with_args() for _ in range(3)])
        for job in (first, *others):
            await job.result("30s")
    charged = charged_in(sqlite_url)
    assert len(charged) == 3
    assert list(unbegun(charged, begun, SLOTS, Ends(frozenset(killed), frozenset(frozen)))) == told
    assert list(unbegun(charged, begun, 2, Ends(frozenset({"gone"}), frozenset()))) == []
