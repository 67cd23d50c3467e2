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

With granularity "clause" the mark of a clause (, ; : — and their like) cuts too, at the checkpoint right behind it, if
what it ends is worth speaking alone: three words and twelve characters, or six characters of a script without spaces.
With "none" only `flush`, `finish` and `max_chars` cut.
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
# Its last character is the checkpoint; the one before may have come earlier.  It begins with a class of characters, in
# search of which `re` runs several times faster.
_CHECKPOINT = re.compile(
    rf"[\s{re.escape(_STOP_TAIL)}](?:(?<=\S\s)|(?<=[{_LINE_BREAKS}])|(?<={_TAIL_CLASS})[^{re.escape(_STOP_TAIL)}])"
)

# A word to wait for: anything but white space and the punctuation found around words.
_WORD = re.compile(r"""[^\s!-/:-@\[-`{-~‐-‧‹›«»¡¿、。「」『』（）！？，．：；]""")

# Without any of these no sentence ends, to sentencex (1.0.32); sparing the call keeps text cheap.  Of all characters in
# 51 languages only those of Unicode's Sentence_Terminal did, here wider, and in two languages also ; and :.
_MARK = re.compile(
    r"""[^\w\s\x00-\x20"-\-/:->@\[-`{-\x7f°–—‘’“”„«»‹›、，；：「」『』（）"""
    "\u200b-\u200f\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]"
)
_WIDE_MARK = re.compile(r"[^\w\s,]")

# Where none of these is, what ends at a mark depends on the text around it alone: a few words, of bounded length.
_PAIRED = re.compile(r"""["'`“”‘’‚‛„‟«»‹›(){}\[\]「」『』（）【】〈〉《》〔〕｢｣¿¡]""")
_CONTEXT_CHARS = 80

# Text with items of a list is cut at the next items too, marked or not: "a) one b) two".
_ITEM = re.compile(r"\s*(?:[^\w\s]\s|\W?\d{1,4}[.)\]:-])")

# Same-length stand-ins.  sentencex (1.0.32) panics, beyond any `except Exception`, at white space of several bytes
# before a mark ("A\u2028."), and refuses lone surrogates.
_ODD_SPACE = re.compile(r"[^\S ]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Also abbreviations (number, Maine, Oklahoma, Illinois…), so sentencex does not end a sentence after them.
_PLAIN_WORD_STOP = re.compile(
    r"\.(?:(?<=(?<![\w.])(?:no|No|NO|ok|Ok|OK|me|ma|pa|id)\.)|(?<=(?<![\w.])(?:etc|ill|art|may|ore)\.)"
    r"|(?<=(?<![\w.])miss\.))(?=\s+[\"'“‘(]?[A-Z])(?!\s+\w*\d)"
)

_ITEM_NUMBER = r"^\s*\(?(?:\d{1,3}|[A-Za-z])[.)]\s*$"
_INITIAL = r"(?<!\w)(?:MM|[A-ZÀ-ÖØ-ÞΑ-ΩА-ЯЁ])\.\s*$"  # "M. Dupont"; English needs no help
_ORDINAL = r"(?<![\w.,])\d{1,2}\.\s*$"
_ORDINAL_LANGUAGES = frozenset(
    ("bs", "cs", "da", "de", "et", "fi", "hr", "hu", "is", "lv", "nb", "nn", "no", "pl", "sk", "sl", "sr", "tr")
)

# Taken for a closer by sentencex while its partner has not come: "Non ? « Oui", "five o'clock. 'Tis late".
_OPENER = re.compile(r"(?<=\s)(?:[«‹„“‘(\[{¿¡]\s*|['\"])$")

# Granularity "clause".
_CLAUSE_MARKS = "、，；：—"
_CLAUSE_STOP = re.compile(rf"""(?:[,;:،؛—–][\"'”’)\]]*|[{_CLAUSE_MARKS}][{re.escape(_STOP_TAIL)}{_CLAUSE_MARKS}]*)$""")
_CLAUSE_TAIL = re.escape(_STOP_TAIL + _CLAUSE_MARKS)
_CLAUSE_CHECKPOINT = re.compile(
    rf"[\s{_CLAUSE_TAIL}](?:(?<=\S\s)|(?<=[{_LINE_BREAKS}])|(?<={_TAIL_CLASS})[^{re.escape(_STOP_TAIL)}]"
    rf"|(?<=[{_CLAUSE_MARKS}])[^{_CLAUSE_TAIL}])"
)
_THREE_WORDS = re.compile(r"(?=.{12})(?:\W*\w[^\s—–]*+[\s—–]+){2}\W*\w", re.DOTALL)
_SIX_UNSPACED = re.compile("(?:[^\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]*+.){6}", re.DOTALL)

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
        self._has_odd_marks = self._language in ("el", "hy")
        self._checkpoint = _CLAUSE_CHECKPOINT if granularity == "clause" else _CHECKPOINT
        self._start_utterance()

    def _start_utterance(self) -> None:
        self._pending = ""  # begins with no white space
        self._offset = 0  # of pending[0] in the utterance
        self._scanned = 0  # pending[:scanned] has had its checkpoints
        self._judged = 0  # no mark of pending[:judged] ends a sentence, unless something paired comes
        self._count = 0

    @property
    def pending_chars(self) -> int:
        """Characters received and neither released nor dropped as white space between sentences."""
        return len(self._pending)

    @property
    def beginning(self) -> Sentence | None:
        """What has come of the next sentence, up to a word after which it surely goes on; None where that is nothing.

        That is, before any mark that might end it.  Its index and its start are those of the sentence to come.
        """
        if self._granularity == "clause":
            return None
        mark = _MARK.search(self._pending)
        sure = self._pending[: min(mark.start() if mark else len(self._pending), self._max_chars // 2)]
        words = sure[: max((sure.rfind(space) for space in " \t"), default=0) + 1].rstrip()
        return Sentence(self._count, words, self._offset, self._offset + len(words)) if words else None

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
            if self._pending[:1].isspace():
                self._drop(len(self._pending) - len(self._pending.lstrip()))
            checkpoint = self._next_checkpoint()
            if checkpoint is not None:
                self._scanned = checkpoint + 1
                if ends := self._ends_at(checkpoint):
                    yield from self._release(ends)
            elif len(self._pending) > self._max_chars:
                self._scanned = self._max_chars + 1
                yield from self._release(self._forced_ends(self._pending[: self._max_chars + 1]))
            else:
                self._scanned = len(self._pending)
                return

    def _next_checkpoint(self) -> int | None:
        scanned, limit = self._scanned, self._max_chars + 1
        found = self._checkpoint.search(self._pending, max(0, scanned - 1), limit)
        if found and found.end() <= scanned:
            found = self._checkpoint.search(self._pending, scanned, limit)
        return found.end() - 1 if found else None

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
        self._judged = max(0, self._judged - chars)

    def _ends_at(self, checkpoint: int) -> list[int]:
        """The boundaries that are final once `pending[checkpoint]` is known."""
        if self._granularity == "none":
            return []
        head, char = self._pending[:checkpoint], self._pending[checkpoint]
        if char in _LINE_BREAKS:
            return self._all_ends(head)
        if stop_end := _stop_end(head, char):
            return self._all_ends(head[:stop_end])
        ends = self._sure_ends(head) if char.isspace() else []
        if self._granularity == "clause" and _is_clause(head, ends[-1] if ends else 0, char):
            ends.append(checkpoint)
        return ends

    def _sure_ends(self, head: str) -> list[int]:
        """The boundaries of `head`, of which the last word is complete, that have a word behind them."""
        word_start = head.rfind(" ") + 1
        if not _WORD.search(head, word_start):
            word_start = len(head) - len(head.rsplit(None, 1)[-1])
        if not _WORD.search(head, word_start):
            return []  # no word has come since the last checkpoint, so nothing has become sure: "!? !? !?" is cheap
        far_reaching = _PAIRED.search(head) is not None or _ITEM.match(head) is not None
        if not self._mark(head).search(head, 0 if far_reaching else self._judged):
            return []
        context = 0
        if not far_reaching and self._judged > _CONTEXT_CHARS:
            context = head.find(" ", self._judged - _CONTEXT_CHARS) + 1
            if _ITEM.match(head, context):
                context = 0
        ends = [end for end in self._inner_ends(head + " ", context) if _WORD.search(head, end)]
        if not ends:
            self._judged = word_start
        return ends

    def _all_ends(self, text: str) -> list[int]:
        """The boundaries of `text`, which ends here.  None lies in its last 。」, which sentencex may take apart."""
        if self._granularity == "none":
            return [len(text)]
        if not self._mark(text).search(text):
            return [len(text)]
        run = _STOP_RUN.search(text, len(text.rstrip(_STOP_TAIL)))
        limit = run.start() if run else len(text)
        return [end for end in self._inner_ends(text) if end < limit] + [len(text)]

    def _forced_ends(self, window: str) -> list[int]:
        """Where to cut `window`, one character too long: at sentences not yet sure, or else at a lesser place."""
        ends = self._inner_ends(window) or [_forced_end(window)]
        return ends[-1:] if self._granularity == "none" else ends

    def _inner_ends(self, window: str, context: int = 0) -> list[int]:
        """sentencex's boundaries strictly inside `window`, less those that it should not have seen.

        Where no boundary lies before some place, it is shown `window[context:]` alone.
        """
        if not self._mark(window).search(window, context):
            return []
        stand_in = window[context:]
        if not (stand_in.isascii() and stand_in.isprintable()):
            stand_in = _SURROGATE.sub("\ufffd", _ODD_SPACE.sub(" ", stand_in))
        if self._language == "en":
            stand_in = _PLAIN_WORD_STOP.sub("!", stand_in)
        segments = sentencex.segment(self._language, stand_in)
        if len(segments) < 2:
            return []
        ends = [context + end for end in accumulate(map(len, segments))][:-1]
        if _PAIRED.search(window):
            openers = [_OPENER.search(window, max(0, end - 40), end) for end in ends]
            ends = sorted({opener.start() if opener else end for opener, end in zip(openers, ends, strict=True)})
        return [end for end in ends if not self._continues(window, end)]

    def _mark(self, text: str) -> re.Pattern[str]:
        """What must be in `text` for a sentence to end there."""
        return _WIDE_MARK if self._has_odd_marks or ")" in text or _ITEM.match(text) else _MARK

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


def _is_clause(head: str, start: int, char: str) -> bool:
    """Whether `head[start:]` ends with a clause's mark, is worth speaking alone, and `char` does not go on with it."""
    mark = _CLAUSE_STOP.search(head, max(start, len(head) - 20))
    if mark is None or (head[mark.start()] in ",;:،؛–" and not char.isspace()):
        return False
    before = head[mark.start() - 1 : mark.start()]
    if before.isdigit() and char.isdigit():
        return False  # １，０００
    if mark[0][0] == "–" and not before.isspace():
        return False  # 3–5
    return bool(_THREE_WORDS.match(head, start, mark.start()) or _SIX_UNSPACED.match(head, start, mark.start()))


def _stop_end(head: str, char: str) -> int | None:
    """The end of the sentence that `head` ends with 。 and its like and their closers, or None.  `char` comes next."""
    if head[-1] not in _STOP_TAIL:
        return None
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
