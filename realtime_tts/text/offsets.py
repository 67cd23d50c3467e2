"""Offset map: for each character of a rewritten text, the span of the original text that it stands for."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field


@dataclass(slots=True)
class OffsetMap:
    """Spans of the original text, in order.  It serves a stream, which appends and forgets, and whole texts alike.

    Runs are stored, not characters: a run was copied, or all of it stands for one span of the original.  A text that
    is not changed is one run.  What the original has and the rewritten text has not is in no run.
    """

    origin: int = 0
    """Where the original text starts."""
    length: int = field(default=0, init=False)
    """Characters of the rewritten text, the forgotten ones included."""
    _starts: list[int] = field(default_factory=list, init=False)
    _sources: list[int] = field(default_factory=list, init=False)
    _ends: list[int | None] = field(default_factory=list, init=False)
    """Where the span ends; None: the run was copied, character by character."""

    @property
    def runs(self) -> int:
        """Number of stored runs: memory and lookup time grow with it."""
        return len(self._starts)

    def append_copy(self, source: int, chars: int) -> None:
        """Appends `chars` characters that were copied from `source` on."""
        if not chars:
            return
        if not self._ends or self._ends[-1] is not None or self._sources[-1] + self.length - self._starts[-1] != source:
            self._append_run(source, None)
        self.length += chars

    def append_replacement(self, source: int, source_end: int, chars: int) -> None:
        """Appends `chars` characters, all of which stand for the original's `[source, source_end)`."""
        if not chars:
            return
        if not self._ends or self._ends[-1] != source_end or self._sources[-1] != source:
            self._append_run(source, source_end)
        self.length += chars

    def append_part(self, other: "OffsetMap", start: int, end: int) -> None:
        """Appends what `other` records of its characters `[start, end)`."""
        end = min(end, other.length)
        if start >= end:
            return
        first = bisect_right(other._starts, start) - 1
        stop = bisect_left(other._starts, end)
        rest = other._starts[first + 1 : stop]
        # The first run may continue the last one here; those after it are copied as they are.
        chars = (rest[0] if rest else end) - start
        source, source_end = other._sources[first], other._ends[first]
        if source_end is None:
            self.append_copy(source + start - other._starts[first], chars)
        else:
            self.append_replacement(source, source_end, chars)
        if rest:
            self._starts += [self.length + each - rest[0] for each in rest]
            self._sources += other._sources[first + 1 : stop]
            self._ends += other._ends[first + 1 : stop]
            self.length += end - rest[0]

    def append_spread(self, other: "OffsetMap", start: int, end: int, chars: int) -> None:
        """Appends `chars` characters, spread evenly over those that `other` has in `[start, end)`.

        Where that is empty they are an insertion, which stands for the character before it.
        """
        if start == end:
            start = max(0, start - 1)
            end = start + 1
        replaced = end - start
        index = 0
        while index < chars:
            first = index * replaced // chars
            last = max(first + 1, (index + 1) * replaced // chars)
            following = max(index + 1, -(-(first + 1) * chars // replaced))  # the first that stands for others
            self.append_replacement(other.source(start + first), other.source_end(start + last), following - index)
            index = following

    def part(self, start: int, end: int) -> "OffsetMap":
        """The map of the characters `[start, end)` alone."""
        part = OffsetMap(self.source_end(start))
        part.append_part(self, start, end)
        return part

    def _append_run(self, source: int, source_end: int | None) -> None:
        self._starts.append(self.length)
        self._sources.append(source)
        self._ends.append(source_end)

    def source(self, offset: int) -> int:
        """Where the span of the character at `offset` starts; after the last character: where its span ends."""
        if not 0 <= offset < self.length:
            return self.source_end(min(offset, self.length))
        run = bisect_right(self._starts, offset) - 1
        return self._sources[run] + (offset - self._starts[run] if self._ends[run] is None else 0)

    def source_end(self, offset: int) -> int:
        """For the exclusive end of a span: where the span of the character at `offset - 1` ends."""
        if offset <= 0 or not self._starts:
            return self.origin
        run = bisect_right(self._starts, offset - 1) - 1
        end = self._ends[run]
        return self._sources[run] + offset - self._starts[run] if end is None else end

    def forget(self, offset: int) -> None:
        """Frees the memory of what precedes `offset`.  No smaller offset may be looked up afterwards."""
        # The character before it stays: `source_end(offset)` needs it.
        dropped = bisect_right(self._starts, max(0, offset - 1)) - 1
        if dropped > 0:
            del self._starts[:dropped], self._sources[:dropped], self._ends[:dropped]


@dataclass(frozen=True, slots=True)
class AlignedText:
    """A rewritten text, and where each of its characters comes from.  Neither is changed later."""

    text: str
    offsets: OffsetMap

    @classmethod
    def of(cls, text: str) -> "AlignedText":
        """A text that is its own original."""
        offsets = OffsetMap()
        offsets.append_copy(0, len(text))
        return cls(text, offsets)

    def source(self, offset: int) -> int:
        """Where the span of the character at `offset` starts in the original text."""
        return self.offsets.source(offset)

    def source_end(self, offset: int) -> int:
        """For the exclusive end of a span: where the span of the character at `offset - 1` ends."""
        return self.offsets.source_end(offset)

    @property
    def sources(self) -> list[int]:
        """For each character, where its span starts."""
        return [self.offsets.source(offset) for offset in range(len(self.text))]

    def part(self, start: int, end: int) -> "AlignedText":
        """The characters `[start, end)`."""
        return AlignedText(self.text[start:end], self.offsets.part(start, end))

    def strip(self) -> "AlignedText":
        """The text without white space at both ends."""
        start = len(self.text) - len(self.text.lstrip())
        return self.part(start, max(start, len(self.text.rstrip())))
