"""Which keys seal the secrets of a database: the operator's, or a key file that the first use makes.

Apart from `compose` because it brings the cipher library, which most processes never need.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from euterpe.compose import EMBEDDED_FOLDER, sqlite_path
from euterpe.sealing import Keyring, PlaintextKeys, load_keyring


def keyring_for(url: str, environ: Mapping[str, str]) -> Keyring | PlaintextKeys:
    """EUTERPE_KEKS where it is set, else the key file. Raises InvalidKeyring."""
    return load_keyring(environ, key_file=key_file_of(url))


def key_file_of(url: str) -> Path:
    """Beside a database file; for a server in the embedded folder, which other machines do not share."""
    if urlsplit(url).scheme in ("sqlite", "libsql"):
        return Path(sqlite_path(url)).with_suffix(".keks")
    return EMBEDDED_FOLDER / "server.keks"
