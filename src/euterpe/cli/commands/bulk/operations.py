"""`euterpe operations`: acts on everything that matched a query, and how far they are."""

from __future__ import annotations

import click

from euterpe.cli.commands.bulk.matching import show_operation
from euterpe.cli.output import age, note, print_fields, print_json, print_table
from euterpe.cli.session import CliSession, database_options, json_option
from euterpe.cli.values import OPERATION_ID
from euterpe.model.bulk import operation_document


@click.group()
def operations() -> None:
    """List, show and cancel bulk operations."""


@operations.command("list")
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="Show at most this many.")
@json_option
@database_options
@click.pass_obj
def list_operations(session: CliSession, limit: int, as_json: bool) -> None:
    """List operations, newest first."""
    found = session.ask(lambda backend: backend.store.operations.list(limit=limit))
    if as_json:
        print_json({"operations": [operation_document(operation) for operation in found]})
    elif not found:
        note("No operations. `euterpe jobs retry --query state:failed` makes one.")
    else:
        print_table(
            ("operation_id", "action", "state", "done", "of", "age", "query"),
            [
                (
                    o.id,
                    o.action,
                    o.state,
                    o.done,
                    o.total if o.total_exact else f">{o.total}",
                    age(o.created_at),
                    o.query,
                )
                for o in found
            ],
            flexible="query",
        )


@operations.command()
@click.argument("operation_id", type=OPERATION_ID)
@json_option
@database_options
@click.pass_obj
def show(session: CliSession, operation_id: str, as_json: bool) -> None:
    """Show the progress of an operation."""
    found = session.ask(lambda backend: backend.store.operations.get(operation_id))
    if as_json:
        print_json(operation_document(found))
        return
    document = operation_document(found)
    skipped = ", ".join(f"{count} {reason}" for reason, count in sorted(found.skipped.items()))
    print_fields((name, skipped or None if name == "skipped" else value) for name, value in document.items())


@operations.command()
@click.argument("operation_id", type=OPERATION_ID)
@json_option
@database_options
@click.pass_obj
def cancel(session: CliSession, operation_id: str, as_json: bool) -> None:
    """Stop an operation. What it has done stays done; no further job is changed."""
    show_operation(session.ask(lambda backend: backend.store.operations.cancel(operation_id)), as_json=as_json)
