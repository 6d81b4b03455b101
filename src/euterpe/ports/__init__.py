"""The ports: what packages ask of each other. The guarantees live in these docstrings; the engines keep them.

`Store` is the complete port of an engine, `Claims` the part of it that a worker lives by. The conformance suite runs
against every implementation, and asks for a capability where not all of them can.
"""

from __future__ import annotations

from euterpe.ports.claims import CallerCompletions, Claims
from euterpe.ports.control_plane import ControlPlaneStore
from euterpe.ports.crons import CronStore
from euterpe.ports.dashboard import DashboardReads, Sessions
from euterpe.ports.operations import BulkOperations
from euterpe.ports.outbox import OutboxStore
from euterpe.ports.rates import KeyRates, RateLimit
from euterpe.ports.store import EVERYTHING, Capability, Clock, Store
from euterpe.ports.sweeps import Sweeps
from euterpe.ports.telemetry import Span, Telemetry, Trace
from euterpe.ports.wakeups import (
    CANCEL_CHANNEL,
    OPERATIONS_CHANNEL,
    OUTBOX_CHANNEL,
    SIDE_CHANNELS,
    Address,
    CommitNotice,
    MessageWakeups,
    NotifiesBeforeCommit,
    Wakeups,
)
from euterpe.ports.workers import WorkerRegistry

__all__ = [
    "CANCEL_CHANNEL",
    "EVERYTHING",
    "OPERATIONS_CHANNEL",
    "OUTBOX_CHANNEL",
    "SIDE_CHANNELS",
    "Address",
    "BulkOperations",
    "CallerCompletions",
    "Capability",
    "Claims",
    "Clock",
    "CommitNotice",
    "ControlPlaneStore",
    "CronStore",
    "DashboardReads",
    "KeyRates",
    "MessageWakeups",
    "NotifiesBeforeCommit",
    "OutboxStore",
    "RateLimit",
    "Sessions",
    "Span",
    "Store",
    "Sweeps",
    "Telemetry",
    "Trace",
    "Wakeups",
    "WorkerRegistry",
]
