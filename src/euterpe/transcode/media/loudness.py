"""Loudness in two passes: the first measures, the second brings the sound to the target, by one gain where it can."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from euterpe.transcode.outputs import Loudness

Mode = Literal["linear", "dynamic", "skipped"]
SILENCE_LUFS = -69.9
LEAST_RANGE = 0.01
"""A measured range of 0 is taken for "not measured" by the filter, which then turns dynamic."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one loudnorm filter said at its end."""

    input_i: float
    input_tp: float
    input_lra: float
    input_thresh: float
    output_i: float
    output_tp: float
    target_offset: float
    mode: Mode

    @property
    def silent(self) -> bool:
        return not math.isfinite(self.input_i) or self.input_i <= SILENCE_LUFS


@dataclass(frozen=True, slots=True)
class LoudnessReport:
    input_lufs: float | None
    """None: silence."""
    output_lufs: float | None
    true_peak_dbtp: float | None
    mode: Mode


def measuring_filter(name: str, target: Loudness) -> str:
    """`name` tells apart what several filters say on the same stderr."""
    return f"loudnorm@{name}=I={target.target_lufs:g}:TP={target.true_peak_dbtp:g}:LRA=11:print_format=json"


def correcting_filter(name: str, target: Loudness, measured: Measured) -> str:
    spread = max(measured.input_lra, LEAST_RANGE)
    options = {
        "I": target.target_lufs,
        "TP": target.true_peak_dbtp,
        "LRA": min(50.0, max(11.0, math.ceil(spread))),  # a narrower target than what is there would turn it dynamic
        "measured_I": measured.input_i,
        "measured_TP": measured.input_tp,
        "measured_LRA": spread,
        "measured_thresh": measured.input_thresh,
        "offset": measured.target_offset,
    }
    listed = ":".join(f"{name}={value:g}" for name, value in options.items())
    return f"loudnorm@{name}={listed}:linear=true:print_format=json"


def read_measured(stderr: str, names: Sequence[str]) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    for name in names:
        match = re.search(rf"\[loudnorm@{re.escape(name)} @ [^\]]*\]\s*(\{{.*?\}})", stderr, re.DOTALL)
        if match is None:
            continue
        try:
            found[name] = _measured(json.loads(match.group(1)))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _measured(said: dict[str, str]) -> Measured:
    return Measured(
        input_i=float(said["input_i"]),
        input_tp=float(said["input_tp"]),
        input_lra=float(said["input_lra"]),
        input_thresh=float(said["input_thresh"]),
        output_i=float(said["output_i"]),
        output_tp=float(said["output_tp"]),
        target_offset=float(said["target_offset"]),
        mode="linear" if said.get("normalization_type") == "linear" else "dynamic",
    )


def report(first: Measured, second: Measured | None) -> LoudnessReport:
    if first.silent or second is None:
        return LoudnessReport(None if first.silent else first.input_i, None, None, "skipped")
    return LoudnessReport(first.input_i, second.output_i, second.output_tp, second.mode)
