"""State of the current line, which several kinds of mark-up share."""

from dataclasses import dataclass
from typing import Literal


@dataclass(slots=True)
class Line:
    at_start: bool
    """Whether mark-up that only the start of a line has may follow."""
    mode: Literal["plain", "heading", "table", "code"] = "plain"
    """Up to the end of the line; "code" up to the closing backticks."""
    star_open: bool = False
    """Whether a single `*` has opened emphasis."""
