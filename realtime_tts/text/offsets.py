"""Which character of a changed text came from where in the original?  Kept while the change is under way."""

from bisect import bisect_right


class SourceMap:
    """Offsets of the clean text to offsets of the received one.  Both only grow; what stays as it was costs nothing."""

    __slots__ = ("_clean", "_end", "_source", "total")

    def __init__(self) -> None:
        # One entry for each stretch that was copied (its end is None) or that stands for [source, end).
        self._clean: list[int] = []
        self._source: list[int] = []
        self._end: list[int | None] = []
        self.total = 0

    def __len__(self) -> int:
        return len(self._clean)

    def copied(self, source: int, chars: int) -> None:
        """`chars` characters, as received at `source`."""
        if not self._end or self._end[-1] is not None or self._source[-1] + self.total - self._clean[-1] != source:
            self._add(source, None)
        self.total += chars

    def replaced(self, source: int, end: int, chars: int) -> None:
        """`chars` characters that stand for `[source, end)` as received."""
        self._add(source, end)
        self.total += chars

    def _add(self, source: int, end: int | None) -> None:
        self._clean.append(self.total)
        self._source.append(source)
        self._end.append(end)

    def source(self, offset: int) -> int:
        """Where the character at `offset` came from; behind the last one: the end of what gave it."""
        if not 0 <= offset < self.total:
            return self.source_end(min(offset, self.total))
        at = bisect_right(self._clean, offset) - 1
        return self._source[at] + (offset - self._clean[at] if self._end[at] is None else 0)

    def source_end(self, offset: int) -> int:
        """The place right behind what gave the character at `offset - 1`."""
        if offset <= 0:
            return 0
        at = bisect_right(self._clean, offset - 1) - 1
        end = self._end[at]
        return self._source[at] + offset - self._clean[at] if end is None else end

    def forget(self, offset: int) -> None:
        """No offset below will be asked for again."""
        # The character before is needed still, for source_end(offset).
        gone = bisect_right(self._clean, max(0, offset - 1)) - 1
        if gone > 0:
            del self._clean[:gone], self._source[:gone], self._end[:gone]
