"""Where does a sentence end, when the text comes in pieces?  Cuts a stream into sentences, each as soon as it is sure.

`sentencex` knows the languages: abbreviations, initials, quotes, which mark ends a sentence.  This file adds what a
stream needs: when a boundary is final, whatever may follow, and that nothing waits or grows without bound.

Every decision is taken at a *checkpoint*, a place that the text alone defines, and looks at no character beyond it.
So any slicing of one text into messages gives the same sentences, even where sentencex, shown more, would change its
mind.  The checkpoints are:

- the white space that ends a word.  Boundaries with a full word behind them are released: the word tells "p.m. today"
  from "p.m. Then".  Punctuation alone is no word; an emoji is.
- a line break of any kind.  It ends a sentence at once: headings, verse and list items matter more in speech than
  hard-wrapped prose, which is therefore cut where it is wrapped.
- the first character after 。！？｡． that is no further end mark or closing quote or bracket.  Such a mark waits for
  neither word nor white space, only for this one character: a 」 may still come, and must stay with its sentence.
  At the end of an utterance, or of a line, nothing is waited for.
- the character that makes the pending text longer than `max_chars`.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, TypeAlias

import sentencex

Granularity: TypeAlias = Literal["sentence", "clause", "none"]

# Read aloud by every front end even when alone.  "+", "=", "#", "*" and "_" mostly stand alone as rules and mark-up.
_SPOKEN_SYMBOLS = frozenset("%‰&°")

_LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_STOPS = "。！？｡．"
# What may follow a stop and still be part of its sentence.  An ASCII quote may also open the next: see _stop_end.
_STOP_TAIL = _STOPS + ".!?…‥~～" + "」』”’）)】》〉〕］]｝}｣〗»" + '"' + "\ufe0e\ufe0f"
_TAIL_CLASS = f"[{re.escape(_STOP_TAIL)}]"
_STOP_RUN = re.compile(f"[{_STOPS}]{_TAIL_CLASS}*+")
_CHECKPOINT = re.compile(rf"(?<=\S)\s|[{_LINE_BREAKS}]|(?<={_TAIL_CLASS})[^{re.escape(_STOP_TAIL)}]")

# A word to wait for: anything but white space and the punctuation found around words.
_WORD = re.compile(r"""[^\s!-/:-@\[-`{-~‐-‧‹›«»¡¿、。「」『』（）！？，．：；]""")

# Without any of these no sentence ends, in any language; sparing the call keeps long plain text cheap.
_MARK = re.compile(r"[^\w\s,]")

# Same-length stand-ins.  sentencex (1.0.32) panics, beyond any `except Exception`, at white space of several bytes
# before a mark ("A\u2028."), and refuses lone surrogates.
_ODD_SPACE = re.compile(r"[^\S ]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Also abbreviations (number, Maine, Oklahoma, Illinois…), so sentencex does not end a sentence after them.
_PLAIN_WORD_STOP = re.compile(
    r"(?<![\w.])(no|No|NO|ok|Ok|OK|etc|me|ill|art|miss|may|ma|pa|id|ore)\.(?=\s+[\"'“‘(]?[A-Z])(?!\s+\w*\d)"
)

_ITEM_NUMBER = r"^\s*\(?(?:\d{1,3}|[A-Za-z])[.)]\s*$"
_INITIAL = r"(?<!\w)(?:MM|[A-ZÀ-ÖØ-ÞΑ-ΩА-ЯЁ])\.\s*$"  # "M. Dupont"; English needs no help
_ORDINAL = r"(?<![\w.,])\d{1,2}\.\s*$"
_ORDINAL_LANGUAGES = frozenset(
    ("bs", "cs", "da", "de", "et", "fi", "hr", "hu", "is", "lv", "nb", "nn", "no", "pl", "sk", "sl", "sr", "tr")
)

# Taken for a closer by sentencex while its partner has not come: "Non ? « Oui", "five o'clock. 'Tis late".
_OPENER = re.compile(r"(?<=\s)(?:[«‹„“‘(\[{¿¡]\s*|['\"])$")

_CLAUSE_END = re.compile(r"[;:,—–،؛][\"'”’)\]]*(?=\s)|[、，；：،؛—]")


@dataclass(frozen=True, slots=True)
class Sentence:
    """`text` is what is spoken; `[start, end)` is where it came from, in characters of the utterance as received.

    `utterance[start:end] == text`, except that in `text` a surrogate pair received as two characters has become one,
    and a lone surrogate U+FFFD.  Offsets count what was received: two for such a pair.
    """

    index: int
    text: str
    start: int
    end: int


def is_speakable(text: str) -> bool:
    """Whether there is anything to pronounce: a letter, a number, a currency sign, or one of % ‰ & °."""
    for char in text:
        category = unicodedata.category(char)
        if category[0] in "LN" or category == "Sc" or char in _SPOKEN_SYMBOLS:
            return True
    return False


class SentenceSplitter:
    """Text in, by `push`, in slices of any size; sentences out.  `flush` ends the utterance; then a new one may begin.

    `language` is a BCP-47 tag, of which the primary subtag counts, or "Auto"; English rules serve where sentencex
    does not know the language.  No sentence is longer than `max_chars`.  All text that is not white space comes back,
    in order, speakable or not (`is_speakable`).  Time is linear in the text; at most `max_chars` characters pend.
    """

    def __init__(self, *, language: str = "en", max_chars: int = 400, granularity: Granularity = "sentence") -> None:
        if max_chars < 2:
            raise ValueError(f"max_chars must be at least 2 (a surrogate pair), got {max_chars}")
        self._language = _primary_subtag(language)
        self._max_chars = max_chars
        self._granularity = granularity
        self._not_an_end = _not_an_end(self._language)
        self._start_utterance()

    def _start_utterance(self) -> None:
        self._pending = ""  # begins with no white space
        self._offset = 0  # of pending[0] in the utterance
        self._scanned = 0  # pending[:scanned] has had its checkpoints
        self._count = 0

    @property
    def pending_chars(self) -> int:
        """Characters received and neither released nor dropped as white space between sentences."""
        return len(self._pending)

    def push(self, text: str) -> list[Sentence]:
        """The sentences that `text` completes."""
        sentences: list[Sentence] = []
        # In blocks, so that what is copied at each release is bounded, whatever the size of the message.
        for start in range(0, len(text), self._max_chars):
            self._pending += text[start : start + self._max_chars]
            sentences.extend(self._advance())
        return sentences

    def flush(self) -> list[Sentence]:
        """Everything that is pending, sure or not.  The utterance goes on: so do indices and offsets."""
        return list(self._release(self._all_ends(self._pending)))

    def finish(self) -> list[Sentence]:
        """Everything left: the utterance is over.  Indices and offsets begin again from 0."""
        sentences = self.flush()
        self._start_utterance()
        return sentences

    def _advance(self) -> Iterator[Sentence]:
        while True:
            self._drop(len(self._pending) - len(self._pending.lstrip()))
            checkpoint = _CHECKPOINT.search(self._pending, self._scanned, self._max_chars + 1)
            if checkpoint:
                self._scanned = checkpoint.end()
                yield from self._release(self._ends_at(checkpoint.start()))
            elif len(self._pending) > self._max_chars:
                self._scanned = self._max_chars + 1
                yield from self._release(self._forced_ends(self._pending[: self._max_chars + 1]))
            else:
                self._scanned = len(self._pending)
                return

    def _release(self, ends: list[int]) -> Iterator[Sentence]:
        start = 0
        for end in ends:
            piece = self._pending[start:end]
            text = piece.strip()
            if text:
                at = self._offset + start + piece.index(text)
                yield Sentence(self._count, _repaired(text), at, at + len(text))
                self._count += 1
            start = end
        self._drop(start)

    def _drop(self, chars: int) -> None:
        self._pending = self._pending[chars:]
        self._offset += chars
        self._scanned = max(0, self._scanned - chars)

    def _ends_at(self, checkpoint: int) -> list[int]:
        """The boundaries that are final once `pending[checkpoint]` is known."""
        head, char = self._pending[:checkpoint], self._pending[checkpoint]
        if char in _LINE_BREAKS:
            return self._all_ends(head)
        if stop_end := _stop_end(head, char):
            return self._all_ends(head[:stop_end])
        if not char.isspace() or not _WORD.search(head.rsplit(None, 1)[-1]):
            return []  # no word has come since the last checkpoint, so nothing has become sure: "!? !? !?" is cheap
        return [end for end in self._inner_ends(head + " ") if _WORD.search(head, end)]

    def _all_ends(self, text: str) -> list[int]:
        """The boundaries of `text`, which ends here.  None lies in its last 。」, which sentencex may take apart."""
        run = _STOP_RUN.search(text, len(text.rstrip(_STOP_TAIL)))
        limit = run.start() if run else len(text)
        return [end for end in self._inner_ends(text) if end < limit] + [len(text)]

    def _forced_ends(self, window: str) -> list[int]:
        """Where to cut `window`, one character too long: at sentences not yet sure, or else at a lesser place."""
        return self._inner_ends(window) or [_forced_end(window)]

    def _inner_ends(self, window: str) -> list[int]:
        """sentencex's boundaries strictly inside `window`, less those that it should not have seen."""
        if not _MARK.search(window):
            return []
        stand_in = _SURROGATE.sub("\ufffd", _ODD_SPACE.sub(" ", window))
        if self._language == "en":
            stand_in = _PLAIN_WORD_STOP.sub(r"\1!", stand_in)
        ends = list(accumulate(len(segment) for segment in sentencex.segment(self._language, stand_in)))[:-1]
        ends = [opener.start() if (opener := _OPENER.search(window, 0, end)) else end for end in ends]
        return [end for end in sorted(set(ends)) if not self._continues(window, end)]

    def _continues(self, window: str, end: int) -> bool:
        if self._not_an_end.search(window, 0, end):
            return True
        # Nothing between mark and word: "Node.JS", "?name=X".
        before, after = window[end - 1], window[end]
        return (before == "．" or (before.isascii() and not before.isspace())) and (after.isalnum() or after == "_")


def _primary_subtag(language: str) -> str:
    subtag = re.split("[-_]", language.strip().lower())[0]
    return subtag if re.fullmatch("[a-z]{2,3}", subtag) else "en"


def _not_an_end(language: str) -> re.Pattern[str]:
    """Matches text after which a sentence goes on, although sentencex would end it."""
    patterns = [_ITEM_NUMBER]
    if language != "en":
        patterns.append(_INITIAL)
    if language in _ORDINAL_LANGUAGES:
        patterns.append(_ORDINAL)
    return re.compile("|".join(patterns))


def _stop_end(head: str, char: str) -> int | None:
    """The end of the sentence that `head` ends with 。 and its like and their closers, or None.  `char` comes next."""
    run = _STOP_RUN.search(head, len(head.rstrip(_STOP_TAIL)))
    if run is None:
        return None
    if run.group() == "．" and char.isdigit() and head[: run.start()][-1:].isdigit():
        return None  # ３．１４
    for at in range(run.start(), run.end()):
        if head[at] == '"' and head.count('"', 0, at) % 2 == 0:
            return at  # opens the next sentence
    return run.end()


def _forced_end(window: str) -> int:
    """The best cut at or before the last character of `window`, for text without a sentence's end."""
    limit = len(window) - 1
    clauses = [match.end() for match in _CLAUSE_END.finditer(window, 0, limit + 1) if match.end() <= limit]
    if clauses and 2 * clauses[-1] >= limit:
        return clauses[-1]
    spaces = [match.start() for match in re.finditer(r"\s", window)]
    if spaces:
        return spaces[-1]
    for end in range(limit, limit // 2, -1):
        if not _joined(window[end - 1], window[end]):
            return end
    return limit - 1 if _is_pair(window[limit - 1], window[limit]) else limit


def _joined(before: str, after: str) -> bool:
    """Whether a cut here would break what the reader sees as one character (a part of UAX 29's rules)."""
    return (
        unicodedata.category(after)[0] == "M"  # combining marks, variation selectors
        or "\u200d" in (before, after)
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # tags, in some flags
        or all("\U0001f1e6" <= char <= "\U0001f1ff" for char in (before, after))  # the other flags
        or _is_pair(before, after)
    )


def _is_pair(before: str, after: str) -> bool:
    return "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"


def _repaired(text: str) -> str:
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
