"""Half-written files: a file is taken when two looks, some time apart, found it the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from euterpe.producer.tree import FoundFile


class ChangingFiles:
    """Files that were seen and are not known to be whole yet. The clock counts seconds and is never set back."""

    def __init__(self, settle_s: float, clock_s: Callable[[], float]) -> None:
        self._settle_s = settle_s
        self._clock_s = clock_s
        self._since: dict[str, tuple[FoundFile, float]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def take_still(self, seen: Iterable[FoundFile]) -> list[FoundFile]:
        """Those that have not changed for long enough; the others are remembered until the next look."""
        now = self._clock_s()
        still: list[FoundFile] = []
        for file in seen:
            before, since = self._since.get(file.path, (None, now))
            if before is None or (before.size, before.mtime_ns) != (file.size, file.mtime_ns):
                since = now
            if now - since >= self._settle_s:
                self._since.pop(file.path, None)
                still.append(file)
            else:
                self._since[file.path] = (file, since)
        return still

    def keep_only(self, paths: Iterable[str]) -> None:
        """Forget files that went away."""
        kept = set(paths)
        self._since = {path: known for path, known in self._since.items() if path in kept}

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self._since)

    @property
    def next_look_s(self) -> float | None:
        """How long until the first of them can be still; None when nothing is waited for."""
        if not self._since:
            return None
        earliest = min(since for _, since in self._since.values())
        return max(0.0, earliest + self._settle_s - self._clock_s())
