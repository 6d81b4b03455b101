"""A suite that passes with a planted bug is the bug. Every bug here must make its test fail, and for its own reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planted.bugs import BUGS as CORE_BUGS
from tests.planted.bugs_campaign import CAMPAIGN_BUGS
from tests.planted.bugs_cancellation import CANCELLATION_BUGS
from tests.planted.bugs_contract import CONTRACT_BUGS
from tests.planted.bugs_cut_off import CUT_OFF_BUGS
from tests.planted.bugs_declared import DECLARED_BUGS
from tests.planted.bugs_edge import EDGE_BUGS
from tests.planted.bugs_locks import LOCK_BUGS
from tests.planted.bugs_names import NAMING_BUGS
from tests.planted.bugs_outbox import OUTBOX_BUGS
from tests.planted.bugs_place import PLACE_BUGS
from tests.planted.bugs_plans import PLAN_BUGS
from tests.planted.bugs_refused import REFUSAL_BUGS
from tests.planted.bugs_rows import ROW_BUGS
from tests.planted.bugs_shutdown import SHUTDOWN_BUGS
from tests.planted.bugs_telemetry import TELEMETRY_BUGS
from tests.planted.bugs_windows import WINDOW_BUGS
from tests.planted.bugs_worker import WORKER_BUGS
from tests.planted.planting import Bug, DoesNotFit, Edit, copy_source, plant, run_tests

BUGS = (
    *REFUSAL_BUGS,
    *CORE_BUGS,
    *CAMPAIGN_BUGS,
    *CANCELLATION_BUGS,
    *CUT_OFF_BUGS,
    *DECLARED_BUGS,
    *EDGE_BUGS,
    *LOCK_BUGS,
    *NAMING_BUGS,
    *OUTBOX_BUGS,
    *PLACE_BUGS,
    *PLAN_BUGS,
    *CONTRACT_BUGS,
    *ROW_BUGS,
    *SHUTDOWN_BUGS,
    *TELEMETRY_BUGS,
    *WINDOW_BUGS,
    *WORKER_BUGS,
)
FAILED = 1
"""pytest's code for "ran, and some tests failed"; 2 to 5 are broken runs."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug, tmp_path: Path, postgres_url: str) -> None:
    source = copy_source(tmp_path)
    plant(source, bug.edits)
    run = run_tests(source, [bug.caught_by], postgres_url)
    said = run.stdout + run.stderr
    assert run.returncode == FAILED, f"{bug.caught_by} did not catch it:\n{said[-3000:]}"
    assert bug.shows_in(said), f"{bug.caught_by} failed for another reason:\n{said[-3000:]}"


def test_a_copy_without_a_bug_passes(tmp_path: Path, postgres_url: str) -> None:
    """A few are enough: every one of these tests also passes on the source itself, in this very run."""
    run = run_tests(copy_source(tmp_path), sorted({bug.caught_by for bug in BUGS})[::12], postgres_url)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]


def test_a_bug_that_no_longer_fits_the_source_is_an_error(tmp_path: Path) -> None:
    source = copy_source(tmp_path)
    with pytest.raises(DoesNotFit, match="0 times"):
        plant(source, [Edit("ports.py", "words that nobody wrote", "")])
    with pytest.raises(DoesNotFit, match="gone"):
        plant(source, [Edit("no_such_file.py", "x", "y")])


def test_names_of_bugs_are_unique() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS)
