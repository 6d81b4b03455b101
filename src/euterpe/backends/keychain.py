"""Which keys seal the secrets of a database: the operator's, or a key file that the first use makes.

Apart from `compose` because it brings the cipher library, which most processes never need.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from euterpe.backends.engines import EMBEDDED_FOLDER, sqlite_path
from euterpe.crypto import InvalidKeyring, Keyring, PlaintextKeys, load_keyring
from euterpe.crypto.keyring import KEKS_VARIABLE, MODE_VARIABLE


def keyring_for(url: str, environ: Mapping[str, str], *, create: bool = True) -> Keyring | PlaintextKeys:
    """EUTERPE_KEKS where it is set, else the key file, which only whoever seals may make. Raises InvalidKeyring."""
    key_file = key_file_of(url)
    if create or environ.get(KEKS_VARIABLE) or environ.get(MODE_VARIABLE):
        return load_keyring(environ, key_file=key_file)
    if not key_file.exists():
        raise InvalidKeyring(
            f"{KEKS_VARIABLE} is not set and there is no key file at {key_file}: nothing was sealed here"
        )
    return Keyring.from_key_file(key_file, create=False)


def key_file_of(url: str) -> Path:
    """Beside a database file; for a server in the embedded folder, which other machines do not share."""
    if urlsplit(url).scheme in ("sqlite", "libsql"):
        return Path(sqlite_path(url)).with_suffix(".keks")
    return EMBEDDED_FOLDER / "server.keks"
