"""Job types that the control plane knows: what each declares, and which arguments it takes.

They are those of the application that the process was started with. Of other types nothing is known: for them the
defaults of the model hold, and any payload is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from euterpe.model.submitting.submission import Submission


class DeclaredType(Protocol):
    """A job type of the application."""

    @property
    def usual(self) -> Submission:
        """A submission of which nothing but the type was said."""
        ...

    def check_arguments(self, payload: bytes, payload_format: str) -> None:
        """InvalidInput names the argument that does not fit."""
        ...


JobTypes = Mapping[str, DeclaredType]
UNDECLARED: Final = Submission(type="undeclared")
