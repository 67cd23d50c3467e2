"""Splitter of streamed text into sentences, each as soon as it is certain.

`boundaries` finds the sentences of a whole text.  This module adds what a stream needs: when a boundary is final,
whatever may follow, and that nothing waits or grows without bound.

Every decision is made at a *checkpoint*, a place that the text alone defines, and depends on no later character.
So any slicing of one text into messages gives the same sentences, even where sentencex would change its decision with
more text.  The checkpoints are:

- the white space that ends a word.  Boundaries with a full word after them are released: the word distinguishes
  "p.m. today" from "p.m. Then".  Punctuation alone is not a word; an emoji is.
- a line break of any kind.  It ends a sentence at once: headings, verse and list items matter more in speech than
  hard-wrapped prose, which is therefore split where it is wrapped.
- the first character after 。！？｡． that is not another end mark or closing quote or bracket.  Such a mark waits for
  neither a word nor white space, only for this one character: a 」 may still follow, and must stay with its sentence.
  At the end of an utterance, or of a line, nothing is waited for.
- the end of a pause (`pauses`): `[pause:1s]` ends a sentence, and is silence before the next.
- the character that makes the pending text longer than `max_chars`.

With granularity "clause" the mark of a clause (, ; : — and their like) ends a piece too, at the checkpoint right after
it, if the clause is worth speaking alone: three words and twelve characters, or six characters of a script without
spaces.  With "none" only `flush`, `finish` and `max_chars` end one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from realtime_tts.text.boundaries import ITEM, MARK, PAIRED, STOP_RUN, STOP_TAIL, SentenceBoundaries, stop_end
from realtime_tts.text.clauses import CLAUSE_MARKS, ends_clause, forced_end
from realtime_tts.text.languages import primary_language
from realtime_tts.text.pauses import MAX_PAUSE_CHARS, MAX_PAUSE_S, PAUSE, PAUSE_HEAD, pause_s
from realtime_tts.text.unicode import LINE_BREAKS, without_surrogates

Granularity: TypeAlias = Literal["sentence", "clause", "none"]

# The last character is the checkpoint; the one before may have been received earlier.  A pattern that starts with a
# class of characters is several times faster to search for.
_TAIL = re.escape(STOP_TAIL)
_CHECKPOINT = re.compile(rf"[\s{_TAIL}](?:(?<=\S\s)|(?<=[{LINE_BREAKS}])|(?<=[{_TAIL}])[^{_TAIL}])")
_CLAUSE_TAIL = re.escape(STOP_TAIL + CLAUSE_MARKS)
_CLAUSE_CHECKPOINT = re.compile(
    rf"[\s{_CLAUSE_TAIL}](?:(?<=\S\s)|(?<=[{LINE_BREAKS}])|(?<=[{_TAIL}])[^{_TAIL}]|(?<=[{CLAUSE_MARKS}])[^{_CLAUSE_TAIL}])"
)
# A word to wait for: anything but white space and the punctuation found around words.
_WORD = re.compile(r"""[^\s!-/:-@\[-`{-~‐-‧‹›«»¡¿、。「」『』（）！？，．：；]""")
_CONTEXT_CHARS = 80
"""How much text before a mark can matter, where nothing is paired: a few words, of bounded length."""


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
    pause_s: float = 0.0
    """Silence before it, at most `MAX_PAUSE_S`."""
    pause_shortened: bool = False
    """Whether the text asks for a longer one."""


class SentenceSplitter:
    """`push` accepts text in slices of any size, and returns sentences.  After `finish` a new utterance may start.

    `language` is a language's name, a BCP-47 tag, or "Auto"; English rules serve where sentencex does not know the
    language.  No sentence is longer than `max_chars`.  All text that is not white space is returned, in order,
    speakable or not (`is_speakable`).  Time is linear in the text; at most `max_chars` characters pend.
    """

    def __init__(self, *, language: str = "en", max_chars: int = 400, granularity: Granularity = "sentence") -> None:
        if max_chars < 2:
            raise ValueError(f"max_chars must be at least 2 (a surrogate pair), got {max_chars}")
        subtag = primary_language(language)
        self._boundaries = SentenceBoundaries(subtag if re.fullmatch("[a-z]{2,3}", subtag) else "en")
        self._max_chars = max_chars
        self._granularity = granularity
        self._checkpoint = _CLAUSE_CHECKPOINT if granularity == "clause" else _CHECKPOINT
        self._start_utterance()

    def _start_utterance(self) -> None:
        self._pending = ""  # begins with no white space
        self._offset = 0  # of pending[0] in the utterance
        self._scanned = 0  # the checkpoints of pending[:scanned] are done
        self._judged = 0  # no mark of pending[:judged] ends a sentence, unless something paired follows
        self._count = 0
        self._pause_s = 0.0  # before the next sentence

    @property
    def pending_chars(self) -> int:
        """Characters received and neither released nor dropped as white space between sentences."""
        return len(self._pending)

    @property
    def beginning(self) -> Sentence | None:
        """The start of the next sentence, up to a word after which it certainly continues; None where that is empty.

        That is, before any mark that might end it.  Its index and its start are those of the next sentence.
        """
        if self._granularity == "clause":
            return None
        mark = MARK.search(self._pending)
        certain = self._pending[: min(mark.start() if mark else len(self._pending), self._max_chars // 2)]
        if pause := re.search(r"\[p|<b|[\[<]$", certain, re.IGNORECASE):
            certain = certain[: pause.start()]
        words = certain[: max((certain.rfind(space) for space in " \t"), default=0) + 1].rstrip()
        return self._sentence(words, self._offset) if words else None

    def push(self, text: str) -> list[Sentence]:
        """The sentences that `text` completes."""
        sentences: list[Sentence] = []
        # In blocks, so that what is copied at each release is bounded, whatever the size of the message.
        for start in range(0, len(text), self._max_chars):
            self._pending += text[start : start + self._max_chars]
            sentences.extend(self._released())
        return sentences

    def flush(self) -> list[Sentence]:
        """Everything that is pending, certain or not.  The utterance continues, and so do indices and offsets."""
        return list(self._release(self._all_ends(self._pending)))

    def flush_finished(self) -> list[Sentence]:
        """Everything that is pending but its last word, number, abbreviation or link, if that may continue.

        For a stream that has stalled: "I like straw" continues with "berries".
        """
        finished = self._pending[: self._boundaries.finished_end(self._pending)]
        return list(self._release(self._all_ends(finished))) if finished.strip() else []

    def finish(self) -> list[Sentence]:
        """Everything left: the utterance is complete.  Indices and offsets start again from 0."""
        sentences = self.flush()
        self._start_utterance()
        return sentences

    # -- Checkpoints ---------------------------------------------------------------------------------------------------

    def _released(self) -> Iterator[Sentence]:
        """Passes the checkpoints of the pending text, and releases what each makes certain."""
        while True:
            if self._pending[:1].isspace():
                self._drop(len(self._pending) - len(self._pending.lstrip()))
            checkpoint = self._next_checkpoint()
            if checkpoint is not None:
                self._scanned = checkpoint + 1
                if pause := self._pause_that_ends_at(checkpoint):
                    yield from self._on_pause(pause)
                elif ends := self._ends_at(checkpoint):
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
        checkpoint = found.end() - 1 if found else None
        pause = PAUSE.search(self._pending, max(0, scanned - MAX_PAUSE_CHARS), limit)
        while pause and pause.end() <= scanned:
            pause = PAUSE.search(self._pending, pause.end(), limit)
        if pause and (checkpoint is None or pause.end() - 1 <= checkpoint):
            return pause.end() - 1
        return checkpoint

    def _pause_that_ends_at(self, checkpoint: int) -> re.Match[str] | None:
        if self._pending[checkpoint] not in "]>":
            return None
        start = max(self._pending.rfind("[", 0, checkpoint), self._pending.rfind("<", 0, checkpoint))
        return PAUSE.match(self._pending, max(0, start), checkpoint + 1)

    def _on_pause(self, pause: re.Match[str]) -> Iterator[Sentence]:
        """Releases what is before the pause, which is silence before the next sentence."""
        if before := self._pending[: pause.start()].rstrip():
            yield from self._release(self._all_ends(before))
        self._drop(pause.end() - len(before))
        self._pause_s += pause_s(pause)

    def _release(self, ends: list[int]) -> Iterator[Sentence]:
        start = 0
        for end in ends:
            piece = self._pending[start:end]
            text = piece.strip()
            if text:
                at = self._offset + start + piece.index(text)
                yield self._sentence(without_surrogates(text), at, at + len(text))
                self._count += 1
                self._pause_s = 0.0
            start = end
        self._drop(start)

    def _sentence(self, text: str, start: int, end: int | None = None) -> Sentence:
        pause, end = min(self._pause_s, MAX_PAUSE_S), start + len(text) if end is None else end
        return Sentence(self._count, text, start, end, pause, pause_shortened=self._pause_s > MAX_PAUSE_S)

    def _drop(self, chars: int) -> None:
        self._pending = self._pending[chars:]
        self._offset += chars
        self._scanned = max(0, self._scanned - chars)
        self._judged = max(0, self._judged - chars)

    # -- Boundaries ----------------------------------------------------------------------------------------------------

    def _ends_at(self, checkpoint: int) -> list[int]:
        """The boundaries that are final once `pending[checkpoint]` is known."""
        if self._granularity == "none":
            return []
        head, char = self._pending[:checkpoint], self._pending[checkpoint]
        if char in LINE_BREAKS:
            return self._all_ends(head)
        if end := stop_end(head, char):
            return self._all_ends(head[:end])
        ends = self._certain_ends(head) if char.isspace() else []
        if self._granularity == "clause" and ends_clause(head, ends[-1] if ends else 0, char):
            ends.append(checkpoint)
        return ends

    def _certain_ends(self, head: str) -> list[int]:
        """The boundaries of `head`, of which the last word is complete, that have a word after them."""
        word_start = head.rfind(" ") + 1
        if not _WORD.search(head, word_start):
            word_start = len(head) - len(head.rsplit(None, 1)[-1])
        if not _WORD.search(head, word_start):
            return []  # no word since the last checkpoint, so nothing has become certain: "!? !? !?" is cheap
        far_reaching = PAIRED.search(head) is not None or ITEM.match(head) is not None
        if not self._boundaries.mark(head).search(head, 0 if far_reaching else self._judged):
            return []
        context = 0
        if not far_reaching and self._judged > _CONTEXT_CHARS:
            context = head.find(" ", self._judged - _CONTEXT_CHARS) + 1
            if ITEM.match(head, context):
                context = 0
        ends = [end for end in self._boundaries.inside(head + " ", context) if _WORD.search(head, end)]
        if not ends:
            self._judged = word_start
        return ends

    def _all_ends(self, text: str) -> list[int]:
        """The boundaries of `text`, which ends here.  None lies in its last 。」, which sentencex may divide."""
        if self._granularity == "none":
            return [len(text)]
        if not self._boundaries.mark(text).search(text):
            return [len(text)]
        run = STOP_RUN.search(text, len(text.rstrip(STOP_TAIL)))
        limit = run.start() if run else len(text)
        return [end for end in self._boundaries.inside(text) if end < limit] + [len(text)]

    def _forced_ends(self, window: str) -> list[int]:
        """Where to divide `window`, one character too long: at sentences not yet certain, or else at `forced_end`."""
        if (pause := PAUSE_HEAD.search(window)) and pause.start():
            return [pause.start()]
        ends = self._boundaries.inside(window) or [forced_end(window)]
        return ends[-1:] if self._granularity == "none" else ends
