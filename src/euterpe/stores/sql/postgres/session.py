"""What a Postgres session of ours is like, whatever the database's or the role's defaults say, and how that is told:
in the connection's startup, or, behind a pooler that gives every transaction another session, with each BEGIN.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from euterpe.model.errors import InvalidInput

APPLICATION: Final = "euterpe"
IDLE_TRANSACTION_S: Final = (1.0, 10.0)
"""A process that is frozen inside a transaction keeps its row locks, and every sweep skips them; the server ends it. At
most so long, and never sooner: an event loop that is blocked for a moment is no frozen process. Every role goes by its
leases. A process that only submits knows of none: it holds no more than its keys and what it depends on, for a sixth of
a usual lease, and its own event loop may well be blocked for seconds."""
LOCK_WAIT_S: Final = 7.0
"""A lock that is held longer is an outage, which the server tells; a submission tries three times in its 30 s."""
OUR_OPTIONS: Final = ("schema", "pool_size", "pooler")
SETTINGS: Final = {
    "jit": "off",
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    # A claim must see what was committed while it waited for a lock.
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    # What is acknowledged is on the disk.
    "synchronous_commit": "on",
    # Every statement of ours has an index to go by. A plan made while the tables were small would read them
    # whole, and be kept on a held connection long after they have grown.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    # The first five plans of a prepared statement would be made for its values. With the ids as constants and
    # statistics that know of no lease, such a plan walks the whole table once for each id.
    "plan_cache_mode": "force_generic_plan",
}
OF_A_TRANSACTION: Final = ("default_transaction_isolation", "default_transaction_read_only", "idle_session_timeout")
"""What BEGIN itself says, or what does not concern a transaction."""


class SessionPlan(msgspec.Struct):
    """How connections are opened and transactions begun."""

    schema: str | None = None
    pool_size: int = 8
    through_pooler: bool = False
    """Every transaction may get another session: nothing may be left in one, and nobody can listen."""
    idle_transaction_s: float = IDLE_TRANSACTION_S[1]

    @property
    def startup(self) -> dict[str, str]:
        """A pooler refuses parameters that it does not know."""
        if self.through_pooler:
            return {"application_name": APPLICATION}
        return {"application_name": APPLICATION, **self._settings()}

    @property
    def begin(self) -> str:
        """One message, however much it says."""
        if self.through_pooler:
            settings = {name: value for name, value in self._settings().items() if name not in OF_A_TRANSACTION}
            local = "".join(f"; SET LOCAL {name} = '{value}'" for name, value in settings.items())
            return f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE{local}"
        if self.idle_transaction_s < IDLE_TRANSACTION_S[1]:
            return f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = '{self.idle_transaction_s * 1000:.0f}ms'"
        return "BEGIN"

    def expect_leases_of(self, seconds: float) -> None:
        """A worker that freezes with a transaction open has renewed its leases within the last third of them: in what
        is left, its locks must go too."""
        shortest_s, longest_s = IDLE_TRANSACTION_S
        self.idle_transaction_s = min(self.idle_transaction_s, max(shortest_s, min(longest_s, seconds / 2)))

    def _settings(self) -> dict[str, str]:
        idle = {"idle_in_transaction_session_timeout": f"{self.idle_transaction_s * 1000:.0f}ms"}
        path = {"search_path": self.schema} if self.schema else {}
        return {**SETTINGS, "lock_timeout": f"{LOCK_WAIT_S * 1000:.0f}ms", **idle, **path}


def split_url(url: str) -> tuple[str, dict[str, str]]:
    """Our own options out of the URL's query; the rest goes to the driver."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    options: dict[str, str] = {name: query.pop(name) for name in OUR_OPTIONS if name in query}
    schema = options.get("schema")
    if schema is not None and not (schema.isidentifier() and schema.isascii() and len(schema) < 64):
        raise InvalidInput("engine.url", f"schema {schema!r} is not a plain identifier")
    if options.get("pooler", "session") not in ("session", "transaction"):
        raise InvalidInput("engine.url", f"pooler {options['pooler']!r} is neither 'transaction' nor 'session'")
    scheme = "postgresql" if parts.scheme in ("postgres", "postgresql") else parts.scheme
    return urlunsplit((scheme, parts.netloc, parts.path, urlencode(query), "")), options


def plan_of(options: dict[str, str]) -> SessionPlan:
    return SessionPlan(
        schema=options.get("schema"),
        pool_size=int(options.get("pool_size", "8")),
        through_pooler=options.get("pooler") == "transaction",
    )
