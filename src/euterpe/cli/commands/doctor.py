"""`euterpe doctor`: what is wrong, or will be soon, and what to do next."""

from __future__ import annotations

import asyncio
from typing import Final

import click
import msgspec

from euterpe.cli.output import print_json, printable
from euterpe.cli.session import CliSession, database_options, json_option
from euterpe.config import ConfigError
from euterpe.model.diagnosis.finding import Finding, Severity, worst
from euterpe.service.doctor.doctor import CONFIGURATION, MEND_IT, examine

EXITS: Final = {Severity.OK: 0, Severity.WARNING: 1, Severity.ERROR: 2}
MARKS: Final = {Severity.OK: ("ok", "green"), Severity.WARNING: ("warning", "yellow"), Severity.ERROR: ("error", "red")}
WIDTH: Final = len("warning")


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also show the checks that passed.")
@json_option
@database_options
@click.pass_obj
def doctor(session: CliSession, everything: bool, as_json: bool) -> None:
    """Check the queue for problems, and say what to do about them.

    The command changes nothing. The exit code is 0 without problems, 1 for warnings and 2 for errors.
    """
    found = _examined(session)
    severity = worst(found)
    if as_json:
        print_json({"severity": str(severity), "findings": msgspec.to_builtins(found)})
    else:
        _show(found, everything=everything)
    raise click.exceptions.Exit(EXITS[severity])


def _examined(session: CliSession) -> list[Finding]:
    """With a configuration that cannot be read there is no telling what else to look at."""
    try:
        loaded = session.loaded
    except ConfigError as error:
        return [Finding(CONFIGURATION, Severity.ERROR, str(problem), MEND_IT) for problem in error.problems]
    return asyncio.run(examine(loaded, session.config_path))


def _show(found: list[Finding], *, everything: bool) -> None:
    """The worst last, where the eye is when the command ends."""
    order = [Severity.OK, Severity.WARNING, Severity.ERROR]
    for finding in sorted(found, key=lambda finding: order.index(finding.severity)):
        if finding.severity is Severity.OK and not everything:
            continue
        mark, colour = MARKS[finding.severity]
        click.echo(f"{click.style(mark.ljust(WIDTH), fg=colour)}  {finding.check}: {printable(finding.message)}")
        if finding.next_step is not None:
            click.echo(f"{' ' * WIDTH}  next: {printable(finding.next_step)}")
    counts = [sum(finding.severity is severity for finding in found) for severity in order]
    well, warnings, errors = counts
    click.echo(f"{len(found)} checks: {well} well, {_counted(warnings, 'warning')}, {_counted(errors, 'error')}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
