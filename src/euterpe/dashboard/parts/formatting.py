"""How numbers, times and states are said: times relative with the exact one behind, states never by colour alone."""

from __future__ import annotations

from typing import Final

from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.html import Child, Html
from euterpe.model.reading.document import rfc3339
from euterpe.model.reading.overview import Count
from euterpe.model.state import State

SECOND_US: Final = 1_000_000
_STEPS: Final = (
    (60, 1, "s"),
    (3_600, 60, "min"),
    (86_400, 3_600, "h"),
    (60 * 86_400, 86_400, "d"),
    (10**12, 30 * 86_400, "months"),
)
GLYPHS: Final[dict[State, str]] = {
    State.PENDING: "◌",
    State.SCHEDULED: "○",
    State.DELAYED: "◷",
    State.RUNNING: "▶",
    State.RETRYING: "↻",
    State.COMPLETED: "✓",
    State.FAILED: "✕",
    State.DEAD_LETTER: "†",
    State.CANCELLED: "⊘",
}


def state_words(state: State) -> str:
    return str(state).replace("_", " ")


def state_mark(state: State, more: Child = None) -> Html:
    """A sign, a word and a colour, of which the word is enough."""
    sign = h.span(GLYPHS[state], class_="sign", aria_hidden="true")
    return h.span(sign, state_words(state), more, class_=f"state s-{state}")


def number(value: int) -> str:
    return f"{value:,}"


def counted(count: Count) -> str:
    return f"{number(count.number)}+" if count.or_more else number(count.number)


def duration(us: int | float) -> str:
    """In two significant units at most: people compare lengths, not digits."""
    if us < 1_000:
        return f"{int(us)} µs"
    if us < SECOND_US:
        return f"{us / 1_000:.3g} ms"
    seconds = us / SECOND_US
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for unit_s, name, smaller_s, smaller in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // smaller_s
            return f"{whole // unit_s} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def size(bytes_: int) -> str:
    if bytes_ < 1_000:
        return f"{bytes_} B"
    return f"{bytes_ / 1_000:.3g} kB" if bytes_ < 1_000_000 else f"{bytes_ / 1_000_000:,.1f} MB"


def exactly(at_us: int) -> str:
    told = rfc3339(at_us) or ""
    return told[:23].replace("T", " ") + " UTC"


def relative(at_us: int, now_us: int) -> str:
    apart_s = abs(now_us - at_us) // SECOND_US
    if apart_s < 1:
        return "now"
    for below, unit_s, name in _STEPS:
        if apart_s < below:
            amount = f"{apart_s // unit_s} {name}"
            return f"in {amount}" if at_us > now_us else f"{amount} ago"
    return "long ago"


def moment(at_us: int | None, now_us: int) -> Html | None:
    """A relative time; the exact one shows on hover and is what a screen reader finds in `datetime`."""
    if at_us is None:
        return None
    return h.time(relative(at_us, now_us), datetime=rfc3339(at_us), title=exactly(at_us))


def share(part: int, whole: int) -> str:
    if not whole or not part:
        return "0 %"
    percent = 100 * part / whole
    return "< 0.1 %" if percent < 0.1 else f"{percent:.1f} %"


def shown_url(url: str) -> str:
    """Without its query, in which tokens travel."""
    place, mark, _ = url.partition("?")
    return f"{place}?…" if mark else place


def short_id(job_id: str) -> str:
    """The end of an id: those of one moment begin alike."""
    return job_id[-8:]
