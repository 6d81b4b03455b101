"""For clients of our own servers on loopback, which speak plain HTTP.

By default each client of httpx reads all the certificates of the world, which takes 40 ms of CPU.
"""

from __future__ import annotations

import ssl
from typing import Final

NO_CERTIFICATES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""`httpx.get(url, verify=NO_CERTIFICATES)`; over TLS it would trust nobody."""
