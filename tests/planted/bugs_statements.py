"""Bugs in how statements declare their contracts."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_CONTRACTS = "tests/statements/test_contracts.py"
_REFUSED = f"{_CONTRACTS}::test_a_contract_that_is_not_whole_or_not_true_is_refused"

STATEMENT_BUGS = (
    Bug(
        "a_statement_may_lie_about_batches",
        (Edit("_lie_in", '    if contract.per == "batch" and not is_batch:\n', "    if False:\n"),),
        f"{_CONTRACTS}::test_a_batch_on_sqlite_takes_rows",
        "DID NOT RAISE",
    ),
    Bug(
        "a_statement_may_declare_what_nobody_knows",
        (Edit("_contract", "in said.keys() - _KEYS:\n", "in ():\n"),),
        _REFUSED,
        "DID NOT RAISE",
    ),
    Bug(
        "a_statement_returns_other_columns_than_it_declares",
        (
            Edit(
                "get_jobs.sql",
                "SELECT {{job_columns}} FROM",
                "SELECT {{job_columns}}, j.line FROM",
            ),
        ),
        f"{_CONTRACTS}::test_statements_return_what_they_declare_on_sqlite",
        "get_jobs returns",
    ),
)
