"""What a check says: that all is well, or what is wrong and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

Facts = TypeVar("Facts")


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Complaint(msgspec.Struct, frozen=True):
    """What is wrong, and what to do next."""

    severity: Severity
    message: str
    next_step: str


def warning(message: str, next_step: str) -> Complaint:
    """It works, and will not for long, or not well."""
    return Complaint(Severity.WARNING, message, next_step)


def error(message: str, next_step: str) -> Complaint:
    """Jobs do not run, or are in danger."""
    return Complaint(Severity.ERROR, message, next_step)


class Check(msgspec.Struct, Generic[Facts], frozen=True):
    """One question about facts of one kind. The rule returns None when all is well."""

    name: str
    well: str
    """What is so when the rule has nothing to say."""
    rule: Callable[[Facts], Complaint | None]


class Finding(msgspec.Struct, frozen=True):
    """The answer to one check."""

    check: str
    severity: Severity
    message: str
    next_step: str | None = None


def findings(checks: Sequence[Check[Facts]], facts: Facts) -> Iterator[Finding]:
    for check in checks:
        complaint = check.rule(facts)
        if complaint is None:
            yield Finding(check.name, Severity.OK, check.well)
        else:
            yield Finding(check.name, complaint.severity, complaint.message, complaint.next_step)


def worst(found: Sequence[Finding]) -> Severity:
    for severity in (Severity.ERROR, Severity.WARNING):
        if any(finding.severity is severity for finding in found):
            return severity
    return Severity.OK
