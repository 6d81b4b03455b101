"""Loudness in two passes: the first measures by EBU R128, the second brings the sound to the target.

One gain does it. Where the true peak has room for that ("linear"), nothing but the volume changes; else a limiter holds
the peaks ("dynamic"), and what it takes away is measured and made up for.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from euterpe.transcode.schema.outputs import Loudness

Mode = Literal["linear", "dynamic", "skipped"]
SILENCE_LUFS = -69.9
MEASURE = "ebur128=peak=true:framelog=quiet"
"""The filter that measures; it passes the sound on as it is."""
MOST_BOOST_DB = 6.0
LIMITER_MARGIN_DB = 0.3
"""Coming back to the lower rate raises peaks a little."""


@dataclass(frozen=True, slots=True)
class Measured:
    lufs: float
    true_peak: float

    @property
    def silent(self) -> bool:
        return not math.isfinite(self.lufs) or self.lufs <= SILENCE_LUFS


@dataclass(frozen=True, slots=True)
class Correction:
    """The second pass for one output."""

    target: Loudness
    measured: Measured
    boost: float = 0.0
    """What the limiter was seen to take away, in dB."""

    @property
    def gain(self) -> float:
        return self.target.target_lufs - self.measured.lufs

    @property
    def mode(self) -> Mode:
        return "linear" if self.measured.true_peak + self.gain <= self.target.true_peak_dbtp else "dynamic"

    def filters(self, rate: int) -> list[str]:
        gained = f"volume={self.gain + self.boost:.2f}dB:precision=float"
        if self.mode == "linear":
            return [gained]
        peak = 10 ** ((self.target.true_peak_dbtp - LIMITER_MARGIN_DB) / 20)
        limited = f"alimiter=limit={peak:.4f}:level=false:latency=true:attack=5:release=50"
        # At four times the rate the limiter also sees peaks that lie between two samples.
        return [gained, f"aresample={4 * rate}", limited, f"aresample={rate}"]


@dataclass(frozen=True, slots=True)
class LoudnessReport:
    input_lufs: float | None
    """None: silence."""
    output_lufs: float | None
    true_peak_dbtp: float | None
    mode: Mode


def read_measured(stderr: str) -> Measured | None:
    """The summary that the measuring filter prints at its end."""
    at = stderr.rfind("Summary:")
    number = r"\s+(-?(?:[\d.]+|inf|nan))"
    found = {key: re.search(rf"\b{key}:{number}", stderr[at:]) for key in ("I", "Peak")} if at >= 0 else {}
    values = {key: float(match.group(1)) for key, match in found.items() if match is not None}
    return Measured(values["I"], values["Peak"]) if len(values) == 2 else None


def report(measured: Measured, correction: Correction | None, after: Measured | None) -> LoudnessReport:
    """One gain is arithmetic; what a limiter left over has to be measured."""
    if correction is None:
        return LoudnessReport(None if measured.silent else measured.lufs, None, None, "skipped")
    if correction.mode == "linear":
        peak = round(measured.true_peak + correction.gain, 2)
        return LoudnessReport(measured.lufs, correction.target.target_lufs, peak, "linear")
    return LoudnessReport(
        measured.lufs, after.lufs if after else None, after.true_peak if after else None, correction.mode
    )


def missed(correction: Correction | None, measured: Measured | None) -> bool:
    """The limiter took away more than a unit of loudness: the target is too high for this sound."""
    return correction is not None and measured is not None and abs(measured.lufs - correction.target.target_lufs) > 1.0
