"""Submitting inside a transaction that the caller opened, on the caller's own connection, whatever its library."""

from euterpe.stores.sql.caller.joined import Joined
from euterpe.stores.sql.caller.recognise import join
from euterpe.stores.sql.caller.target import Target, target_of

__all__ = ["Joined", "Target", "join", "target_of"]
