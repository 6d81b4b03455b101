"""`euterpe rates`: how fast jobs of a key may start."""

from __future__ import annotations

import click

from euterpe.backends.engines import Backend
from euterpe.cli.output import note, print_json, print_line, print_table
from euterpe.cli.session import CliSession, database_options, json_option
from euterpe.model.duration import format_duration
from euterpe.model.rate import KeyRate, format_rate, parse_rate
from euterpe.model.submitting.submission import LOCAL_REQUESTER, check_limit_key

requester_option = click.option(
    "--requester",
    default=LOCAL_REQUESTER,
    show_default=True,
    help="The owner of the key; each requester has its own keys.",
)


@click.group()
def rates() -> None:
    """List, set and remove the rates of keys: how many of their jobs may start in a given time."""


@rates.command("list")
@json_option
@database_options
@click.pass_obj
def list_(session: CliSession, as_json: bool) -> None:
    """Show all rates, and how many jobs may start now."""

    async def question(backend: Backend) -> list[KeyRate]:
        return await backend.store.rates.list()

    found = session.ask(question)
    if as_json:
        print_json({"rates": [_document(rate) for rate in found]})
    elif not found:
        note("No key has a rate; `euterpe rates set KEY 10/s` gives it one.")
    else:
        rows = [
            [r.key, r.requester_id, format_rate(r.rate), r.rate.burst, r.tokens, _wait(r.next_in_us)] for r in found
        ]
        print_table(("key", "requester", "rate", "burst", "tokens", "next in"), rows, flexible="key")


@rates.command("set")
@click.argument("key")
@click.argument("rate", metavar="RATE")
@click.option("--burst", type=int, default=1, show_default=True, help="How many may start at once after a pause.")
@requester_option
@database_options
@click.pass_obj
def set_(session: CliSession, key: str, rate: str, burst: int, requester: str) -> None:
    """Limit how fast jobs of KEY start, over all workers. RATE is 10/s, 100/m, 5000/h or 1/15s, for example."""
    check_limit_key(key)
    wanted = parse_rate(rate, burst)

    async def act(backend: Backend) -> None:
        await backend.store.rates.set(key, wanted, requester)

    session.ask(act, create=True)
    print_line(f"{key}: {rate}, burst {burst}")


@rates.command("remove")
@click.argument("key")
@requester_option
@database_options
@click.pass_obj
def remove(session: CliSession, key: str, requester: str) -> None:
    """Remove the rate of KEY, so that its jobs start without a limit."""

    async def act(backend: Backend) -> bool:
        return await backend.store.rates.remove(key, requester)

    print_line(f"{key}: no rate any more" if session.ask(act) else f"{key} had no rate")


def _wait(duration_us: int) -> str:
    """In whole milliseconds, rounded up: a rate of ten a second waits for less than one second."""
    return format_duration(-(-duration_us // 1000) * 1000)


def _document(found: KeyRate) -> dict[str, object]:
    return {
        "key": found.key,
        "requester": found.requester_id,
        "interval_us": found.rate.interval_us,
        "burst": found.rate.burst,
        "tokens": found.tokens,
        "next_in_us": found.next_in_us,
    }
