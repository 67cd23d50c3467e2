"""Clause boundaries, and where text without a sentence's end is best divided."""

import re

from realtime_tts.text.boundaries import STOP_TAIL
from realtime_tts.text.unicode import is_joined, is_surrogate_pair

CLAUSE_MARKS = "、，；：—"
"""Marks of a clause after which no white space follows."""
_CLAUSE_STOP = re.compile(rf"""(?:[,;:،؛—–][\"'”’)\]]*|[{CLAUSE_MARKS}][{re.escape(STOP_TAIL)}{CLAUSE_MARKS}]*)$""")
_THREE_WORDS = re.compile(r"(?=.{12})(?:\W*\w[^\s—–]*+[\s—–]+){2}\W*\w", re.DOTALL)
_SIX_UNSPACED = re.compile("(?:[^\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]*+.){6}", re.DOTALL)
_CLAUSE_END = re.compile(r"[;:,—–،؛][\"'”’)\]]*(?=\s)|[、，；：،؛—]")


def ends_clause(head: str, start: int, char: str) -> bool:
    """Whether `head[start:]` ends with a clause's mark, is worth speaking alone, and `char` does not continue it."""
    mark = _CLAUSE_STOP.search(head, max(start, len(head) - 20))
    if mark is None or (head[mark.start()] in ",;:،؛–" and not char.isspace()):
        return False
    before = head[mark.start() - 1 : mark.start()]
    if before.isdigit() and char.isdigit():
        return False  # １，０００
    if mark[0][0] == "–" and not before.isspace():
        return False  # 3–5
    return bool(_THREE_WORDS.match(head, start, mark.start()) or _SIX_UNSPACED.match(head, start, mark.start()))


def forced_end(window: str) -> int:
    """The best boundary at or before the last character of `window`, for text without a sentence's end.

    After a clause in the second half, else at white space, else between two characters as the reader sees them.
    """
    limit = len(window) - 1
    clauses = [match.end() for match in _CLAUSE_END.finditer(window, 0, limit + 1) if match.end() <= limit]
    if clauses and 2 * clauses[-1] >= limit:
        return clauses[-1]
    spaces = [match.start() for match in re.finditer(r"\s", window)]
    if spaces:
        return spaces[-1]
    for end in range(limit, limit // 2, -1):
        if not is_joined(window[end - 1], window[end]):
            return end
    return limit - 1 if is_surrogate_pair(window[limit - 1], window[limit]) else limit
