"""A suite that passes with a planted bug is the bug. Every bug here must make its test fail, and for its own reason."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests import patience
from tests.planted import planting
from tests.planted.bugs import BUGS as CORE_BUGS
from tests.planted.bugs_attempt_logs import ATTEMPT_LOG_BUGS
from tests.planted.bugs_audit import AUDIT_BUGS
from tests.planted.bugs_blocked_loop import BLOCKED_LOOP_BUGS
from tests.planted.bugs_breaker import BREAKER_BUGS
from tests.planted.bugs_bulk import BULK_BUGS
from tests.planted.bugs_campaign import CAMPAIGN_BUGS
from tests.planted.bugs_cancellation import CANCELLATION_BUGS
from tests.planted.bugs_circuits import CIRCUIT_BUGS
from tests.planted.bugs_contract import CONTRACT_BUGS
from tests.planted.bugs_control import CONTROL_BUGS
from tests.planted.bugs_cut_off import CUT_OFF_BUGS
from tests.planted.bugs_dashboard import DASHBOARD_BUGS
from tests.planted.bugs_day_one import DAY_ONE_BUGS
from tests.planted.bugs_declared import DECLARED_BUGS
from tests.planted.bugs_deliveries import DELIVERY_BUGS
from tests.planted.bugs_demo import DEMO_BUGS
from tests.planted.bugs_edge import EDGE_BUGS
from tests.planted.bugs_explored import EXPLORED_BUGS
from tests.planted.bugs_hooks import HOOK_BUGS
from tests.planted.bugs_http import HTTP_BUGS
from tests.planted.bugs_keyed import KEYED_BUGS
from tests.planted.bugs_line import LINE_BUGS
from tests.planted.bugs_lists import LIST_BUGS
from tests.planted.bugs_locks import LOCK_BUGS
from tests.planted.bugs_looking import LOOKING_BUGS
from tests.planted.bugs_media import MEDIA_BUGS
from tests.planted.bugs_names import NAMING_BUGS
from tests.planted.bugs_outbox import OUTBOX_BUGS
from tests.planted.bugs_place import PLACE_BUGS
from tests.planted.bugs_plans import PLAN_BUGS
from tests.planted.bugs_probing import PROBING_BUGS
from tests.planted.bugs_producer import PRODUCER_BUGS
from tests.planted.bugs_recovery import RECOVERY_BUGS
from tests.planted.bugs_redis_lists import REDIS_LIST_BUGS
from tests.planted.bugs_refused import REFUSAL_BUGS
from tests.planted.bugs_registry import REGISTRY_BUGS
from tests.planted.bugs_released import RELEASED_BUGS
from tests.planted.bugs_replacing import REPLACING_BUGS
from tests.planted.bugs_rows import ROW_BUGS
from tests.planted.bugs_shipping import SHIPPING_BUGS
from tests.planted.bugs_shortage import SHORTAGE_BUGS
from tests.planted.bugs_shutdown import SHUTDOWN_BUGS
from tests.planted.bugs_slots import SLOT_BUGS
from tests.planted.bugs_speed import SPEED_BUGS
from tests.planted.bugs_sqlite_lines import SQLITE_LINES_BUGS
from tests.planted.bugs_statements import STATEMENT_BUGS
from tests.planted.bugs_storage import STORAGE_BUGS
from tests.planted.bugs_surface import SURFACE_BUGS
from tests.planted.bugs_suspects import SUSPECT_BUGS
from tests.planted.bugs_telemetry import TELEMETRY_BUGS
from tests.planted.bugs_transcode import TRANSCODE_SERVICE_BUGS
from tests.planted.bugs_windows import WINDOW_BUGS
from tests.planted.bugs_worker import WORKER_BUGS
from tests.planted.planting import Bug, DoesNotFit, Edit, Runner, Source

BUGS = (
    *REFUSAL_BUGS,
    *REGISTRY_BUGS,
    *REPLACING_BUGS,
    *CORE_BUGS,
    *BLOCKED_LOOP_BUGS,
    *BULK_BUGS,
    *CAMPAIGN_BUGS,
    *CANCELLATION_BUGS,
    *CONTROL_BUGS,
    *CUT_OFF_BUGS,
    *DAY_ONE_BUGS,
    *DECLARED_BUGS,
    *DELIVERY_BUGS,
    *DEMO_BUGS,
    *EDGE_BUGS,
    *HOOK_BUGS,
    *EXPLORED_BUGS,
    *LINE_BUGS,
    *RECOVERY_BUGS,
    *HTTP_BUGS,
    *LIST_BUGS,
    *LOCK_BUGS,
    *LOOKING_BUGS,
    *ATTEMPT_LOG_BUGS,
    *MEDIA_BUGS,
    *NAMING_BUGS,
    *STATEMENT_BUGS,
    *OUTBOX_BUGS,
    *PLACE_BUGS,
    *PLAN_BUGS,
    *DASHBOARD_BUGS,
    *PROBING_BUGS,
    *PRODUCER_BUGS,
    *BREAKER_BUGS,
    *REDIS_LIST_BUGS,
    *CIRCUIT_BUGS,
    *AUDIT_BUGS,
    *CONTRACT_BUGS,
    *ROW_BUGS,
    *SHIPPING_BUGS,
    *SHORTAGE_BUGS,
    *SHUTDOWN_BUGS,
    *RELEASED_BUGS,
    *KEYED_BUGS,
    *SLOT_BUGS,
    *SPEED_BUGS,
    *SQLITE_LINES_BUGS,
    *STORAGE_BUGS,
    *SURFACE_BUGS,
    *SUSPECT_BUGS,
    *TELEMETRY_BUGS,
    *TRANSCODE_SERVICE_BUGS,
    *WINDOW_BUGS,
    *WORKER_BUGS,
)
RUN = BUGS if os.environ.get("EUTERPE_TEST_PLANTED") == "all" else BUGS[::4]
"""`.ci/run` plants them all. `./test` plants every fourth and looks whether the others still fit: that keeps it short."""
FAILED = 1
"""pytest's code for "ran, and some tests failed"; 2 to 5 are broken runs."""


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return Source(tmp_path_factory.mktemp("planted") / "src")


@pytest.fixture(scope="session")
def runner(postgres_url: str) -> Iterator[Runner]:
    with closing(Runner(postgres_url)) as runner:
        yield runner


@pytest.mark.parametrize("bug", RUN, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug, source: Source, runner: Runner, tmp_path: Path) -> None:
    with source.planted(bug.edits):
        run = runner.run(source, [bug.caught_by], tmp_path)
        if run.ran_out and not bug.shows_in(run.said):
            # A busy machine, and less patience than elsewhere: only that is given back, the symptom must be the same.
            run = runner.run(source, [bug.caught_by], tmp_path, patience.PATIENCE_S)
    assert run.code == FAILED, f"{bug.caught_by} did not catch it:\n{run.said[-3000:]}"
    assert bug.shows_in(run.said), f"{bug.caught_by} failed for another reason:\n{run.said[-3000:]}"


def test_a_copy_without_a_bug_passes(source: Source, runner: Runner, tmp_path: Path) -> None:
    """A few are enough: every one of these tests also passes on the source itself, in this very run. No campaigns: what
    is asked here is whether the copy itself makes a test fail."""
    tests = sorted({bug.caught_by for bug in BUGS if not bug.caught_by.startswith("tests/campaign/")})[::30]
    run = runner.run(source, tests, tmp_path)
    assert run.code == 0, run.said[-3000:]


def test_a_bug_that_no_longer_fits_the_source_is_an_error(source: Source) -> None:
    with (
        pytest.raises(DoesNotFit, match="0 times"),
        source.planted([Edit("State.PENDING", "words that nobody wrote", "")]),
    ):
        pass
    for place in ("no_such_file.py", "NoSuchClass.run", "state.py:no_such_function", "__init__.py"):
        with pytest.raises(DoesNotFit, match=f"the source has {place}"), source.planted([Edit(place, "x", "y")]):
            pass


def test_a_bug_is_gone_before_the_next_one_and_never_read_from_its_compiled_file(source: Source) -> None:
    ask = [sys.executable, "-c", "from euterpe.model.state import State; print(State.PENDING)"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def word_for_pending() -> str:
        paths = environment | {"PYTHONPATH": str(source.folder)}
        return subprocess.run(ask, env=paths, capture_output=True, text=True, check=True).stdout.strip()

    for word in ("waiting", "at_rest"):  # of one size, in one second
        with source.planted([Edit("State.PENDING", 'PENDING = "pending"', f'PENDING = "{word}"')]):
            assert word_for_pending() == word
        assert word_for_pending() == "pending"


def test_a_run_that_takes_too_long_is_ended_and_is_no_verdict(
    source: Source, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planting, "DEADLINE_S", 0.0)
    with closing(Runner(postgres_url)) as runner, pytest.raises(TimeoutError, match="took more than"):
        runner.run(source, [BUGS[0].caught_by], tmp_path)


def test_every_bug_fits_the_source_and_names_a_test_that_is_there(source: Source) -> None:
    for bug in BUGS:
        with source.planted(bug.edits):
            pass
        path, _, name = bug.caught_by.partition("::")
        assert f"def {name.partition('[')[0]}(" in (planting.ROOT / path).read_text(), bug.name


def test_names_of_bugs_are_unique() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS)
