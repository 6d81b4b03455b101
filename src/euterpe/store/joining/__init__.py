"""Submitting inside a transaction that the caller opened, on the caller's own connection, whatever its library."""

from euterpe.store.joining.home import Home, home_of
from euterpe.store.joining.joined import Joined
from euterpe.store.joining.recognising import join

__all__ = ["Home", "Joined", "home_of", "join"]
