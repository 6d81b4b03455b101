"""Bugs of the dashboard: who may act, whose jobs are seen, and what breaks out of a page."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

SIGN_IN = "tests/dashboard/test_sign_in.py"
PAGES = "tests/dashboard/test_pages.py"

DASHBOARD_BUGS = (
    Bug(
        "a_form_of_another_site_is_taken",
        (
            Edit(
                "PageServer.act",
                "            if not is_own_form(request, csrf):\n                raise foreign_form()\n",
                "",
            ),
        ),
        f"{SIGN_IN}::test_a_form_from_elsewhere_is_refused",
        "[303, 303, 303, 403, 403]",
    ),
    Bug(
        "a_key_that_may_only_read_acts",
        (
            Edit(
                "PageServer.act",
                "            if not visitor.is_admin:\n",
                "            if visitor.requester_id == '':\n",
            ),
        ),
        f"{SIGN_IN}::test_whoever_may_only_read_finds_no_buttons_and_cannot_act",
        "assert 303 == 403",
    ),
    Bug(
        "a_requester_sees_everybodys_jobs",
        (Edit("Visitor.sees", "return None if self.is_admin else self.requester_id", "return None"),),
        f"{SIGN_IN}::test_a_requester_sees_its_own_jobs_alone[sqlite]",
        "assert 'foreign' not in",
    ),
    Bug(
        "a_revoked_key_keeps_its_sessions",
        (Edit("_visitor_of", "if stored.is_over or not (", "if not ("),),
        f"{SIGN_IN}::test_a_revoked_key_ends_its_sessions_and_so_does_signing_out[sqlite]",
        "assert 200 == 303",
    ),
    Bug(
        "stored_text_is_html",
        (Edit("html.py:_texts", "yield escape(child, quote=False)", "yield child"),),
        f"{PAGES}::test_nothing_that_was_stored_breaks_out_of_a_page[sqlite]",
        "assert",
    ),
    Bug(
        "a_payload_tells_its_secrets",
        (Edit("_member", "    if is_secret(name):\n        return name, HIDDEN, True\n", ""),),
        f"{PAGES}::test_a_job_tells_everything_about_itself_but_its_secrets[sqlite]",
        "assert 'hunter' not in",
    ),
    Bug(
        "a_blocked_worker_is_not_listed",
        (Edit("live.sql", " OR {{workers/keeps_leases}}", ""),),
        "tests/conformance/test_registry.py"
        "::test_one_that_is_silent_and_keeps_its_leases_is_listed_as_not_answering[sqlite]",
        "not enough values to unpack",
    ),
    Bug(
        "a_blocked_worker_is_swept_away",
        (Edit("forget_silent.sql", " AND NOT {{workers/keeps_leases}}", ""),),
        "tests/conformance/test_registry.py"
        "::test_one_that_is_silent_and_keeps_its_leases_is_listed_as_not_answering[sqlite]",
        "not enough values to unpack",
    ),
    Bug(
        "an_estimate_is_told_as_a_count",
        (Edit("stats.py:stats", "        counts.estimated,\n", "        (),\n"),),
        "tests/conformance/test_stats_of_many.py"
        "::test_a_state_with_many_jobs_is_estimated_and_the_others_are_exact[sqlite]",
        "assert",
    ),
)
