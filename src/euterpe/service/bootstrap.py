"""The first start of the embedded default: a key, so that the first request can be made.

The key is printed once. A copy stays beside the database, readable by its owner alone like that, so that
the next start can still print a command that works.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from euterpe.backends.accounts import api_keys, enrolment
from euterpe.backends.engines import sqlite_path
from euterpe.backends.keychain import keyring_for
from euterpe.model.accounts import CreatedKey, split_key
from euterpe.ports import Store
from euterpe.webhook.signing import new_secret

KEY_SUFFIX: Final = ".api-key"


@dataclass(frozen=True, slots=True)
class FirstKey:
    """What a start has to say about keys: a new one, or where an earlier one is kept."""

    created: CreatedKey | None = None
    kept_in: Path | None = None
    prefix: str | None = None
    """Of that key, if it is still good."""


async def ensure_first_key(url: str, store: Store, environ: Mapping[str, str]) -> FirstKey:
    """A first key for a database file that has none. A server's keys are its operator's: `euterpe keys create`."""
    if urlsplit(url).scheme != "sqlite":
        return FirstKey()
    kept_in = Path(sqlite_path(url)).with_suffix(KEY_SUFFIX)
    created = await enrolment(store, keyring_for(url, environ)).ensure_first(new_secret())
    if created is not None:
        _keep(kept_in, created.key)
        return FirstKey(created, kept_in, created.record.prefix)
    prefix = await _good_prefix(kept_in, store)
    return FirstKey(kept_in=None if prefix is None else kept_in, prefix=prefix)


def _keep(path: Path, key: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{key}\n")


def _kept(path: Path) -> tuple[str, str] | None:
    try:
        return split_key(path.read_text().strip())
    except (OSError, UnicodeDecodeError):
        return None


async def _good_prefix(path: Path, store: Store) -> str | None:
    parts = _kept(path)
    stored = await api_keys(store).find(parts[0]) if parts is not None else None
    return None if stored is None or stored.is_over else stored.record.prefix
