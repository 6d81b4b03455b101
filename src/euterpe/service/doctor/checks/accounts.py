"""Checks of API keys, and of the keys that seal secrets."""

from __future__ import annotations

from typing import Final

from euterpe.model.diagnosis.facts import AccountFacts
from euterpe.model.diagnosis.finding import Check, Complaint, error, warning
from euterpe.service.doctor.wording import DAY_US, age_text, listed

SOON_US: Final = 14 * DAY_US


def expiring_keys(facts: AccountFacts) -> Complaint | None:
    soon = sorted((k for k in facts.expiring if k.expires_in_us < SOON_US), key=lambda key: key.expires_in_us)
    if not soon:
        return None
    names = listed([f"{key.prefix} of {key.requester} (in {age_text(key.expires_in_us)})" for key in soon])
    return warning(f"API keys expire soon: {names}", f"euterpe keys rotate {soon[0].prefix}")


def missing_keks(facts: AccountFacts) -> Complaint | None:
    if not facts.keks_used or facts.plaintext:
        return None
    lost = sorted(set(facts.keks_used) - (facts.keks_here or frozenset()))
    if not lost:
        return None
    secrets = sum(facts.keks_used[name] for name in lost)
    return error(
        f"{secrets:,} secrets are sealed by keys that are not here: {listed(lost)}",
        "set EUTERPE_KEKS, or bring back the key file (*.keks); `euterpe kek status` shows which are used",
    )


def plaintext(facts: AccountFacts) -> Complaint | None:
    if not facts.plaintext:
        return None
    return warning(
        "EUTERPE_SEALING=plaintext: secrets lie in the database as they are",
        "unset it, and set EUTERPE_KEKS; then `euterpe kek rewrap`",
    )


CHECKS: Final[tuple[Check[AccountFacts], ...]] = (
    Check("expiring_keys", "no API key expires soon", expiring_keys),
    Check("missing_keks", "what seals secrets is here", missing_keks),
    Check("plaintext_secrets", "secrets are sealed", plaintext),
)
