"""Sentence boundaries of a whole text: those of `sentencex`, corrected.

`sentencex` knows the languages, each with its own list of abbreviations: initials, quotes, which mark ends a sentence.
For English the lists of the text normaliser (`english/abbreviations.py`) correct it, so that both read an abbreviation
alike.
"""

import re
from itertools import accumulate, groupby

import sentencex

from realtime_tts.text.english.abbreviations import (
    ALSO_WORDS,
    DICTIONARY_TITLES,
    NEVER_LAST,
    SELDOM_LAST,
    UNITS_WITH_POINT,
)
from realtime_tts.text.pauses import PAUSE_HEAD
from realtime_tts.text.rules import any_of
from realtime_tts.text.unicode import SURROGATE, UNSPACED

STOPS = "。！？｡．"
"""End marks after which no white space follows."""
STOP_TAIL = STOPS + ".!?…‥~～" + "」』”’）)】》〉〕］]｝}｣〗»" + '"' + "\ufe0e\ufe0f"
"""What may follow a stop and still be part of its sentence.  An ASCII quote may also open the next: see `stop_end`."""
STOP_RUN = re.compile(f"[{STOPS}][{re.escape(STOP_TAIL)}]*+")

MARK = re.compile(
    r"""[^\w\s\x00-\x20"-\-/:->@\[-`{-\x7f°–—‘’“”„«»‹›、，；：「」『』（）"""
    "\u200b-\u200f\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]"
)
"""Without any of these sentencex (1.0.32) ends no sentence, and is not called, which keeps text cheap.

Of all characters in 51 languages only those of Unicode's Sentence_Terminal ended one, here wider, and in two languages
also ; and :."""
_WIDE_MARK = re.compile(r"[^\w\s,]")

PAIRED = re.compile(r"""["'`“”‘’‚‛„‟«»‹›(){}\[\]「」『』（）【】〈〉《》〔〕｢｣¿¡]""")
"""Without any of these, whether a mark ends a sentence depends on a few words around it alone."""
ITEM = re.compile(r"\s*(?:[^\w\s]\s|\W?\d{1,4}[.)\]:-])")
"""The start of a list.  A boundary follows at each next item, marked or not: "a) one b) two"."""

# Same-length stand-ins.  sentencex (1.0.32) panics, beyond any `except Exception`, at white space of several bytes
# before a mark ("A\u2028."), and refuses lone surrogates.
_ODD_SPACE = re.compile(r"[^\S ]")
# To sentencex these words are abbreviations only (number, Maine, Illinois…), after which no sentence ends.
_SAME_LENGTH = [any_of(words) for _, words in groupby(sorted(ALSO_WORDS, key=len), key=len)]  # as a lookbehind needs
_AFTER_PLAIN_WORD = "|".join(rf"(?<=(?<![\w.])(?:{words})\.)" for words in _SAME_LENGTH)
_PLAIN_WORD_STOP = re.compile(rf"\.(?:{_AFTER_PLAIN_WORD})(?=\s+[\"'“‘(]?[A-Z])(?!\s+\w*\d)")

_ITEM_NUMBER = r"(?:^|:)\s*\(?(?:\d{1,3}|[A-Za-z])[.)]\s*$"
_INITIAL = r"(?<!\w)(?:MM|[A-ZÀ-ÖØ-ÞΑ-ΩА-ЯЁ])\.\s*$"  # "M. Dupont"; for English sentencex knows initials
_ORDINAL = r"(?<![\w.,])\d{1,2}\.\s*$"
_ORDINAL_LANGUAGES = frozenset(
    ("bs", "cs", "da", "de", "et", "fi", "hr", "hu", "is", "lv", "nb", "nn", "no", "pl", "sk", "sl", "sr", "tr")
)
_NEVER_LAST = re.compile(rf"(?<![\w.])(?:{any_of(NEVER_LAST)})$")
_SELDOM_LAST = re.compile(rf"(?<![\w.])(?:{any_of(SELDOM_LAST)})$|\d ?(?:{any_of(UNITS_WITH_POINT)})$")
_CONTINUATION = re.compile(r"\s*[a-z0-9(]")

# sentencex treats these as closers before their partner was received: "Non ? « Oui", "five o'clock. 'Tis late".
_OPENER = re.compile(r"(?<=\s)(?:[«‹„“‘(\[{¿¡]\s*|['\"])$")

_LOOK_BACK_CHARS = 40  # for what is just before a boundary: these words, and white space


# At the end of a stalled stream.  A mark of punctuation ends a word, but "3." may become "3.50", and "example." a link.
_FINISHED = re.compile(
    rf"(?:\s|{UNSPACED.pattern}|(?<![\d.])[.](?<!\d\.)[\"'”’)\]]*|[^\w\s.,:$€£¥@#&/'’+=~_\-][\"'”’)\]]*|(?<!\d)[,:])\Z"
)
_UNFINISHED = re.compile(
    rf"[(\[\"'“‘]*(?:{any_of((*NEVER_LAST, *DICTIONARY_TITLES, *SELDOM_LAST, *UNITS_WITH_POINT))}|(?:[A-Za-z]\.)+"
    r"|\S*(?://|www\.|@)\S*)"
)
"""Words with a point that the sentence goes on after, and links."""
_COUNTS = re.compile(r"[$€£]?\d[\d.,]{0,20}|[Nn]os?\.|pp?\.")


def _last_word(text: str) -> int:
    """Where the last word of the text starts."""
    return max((text.rfind(space) for space in " \t\n\r"), default=-1) + 1


class SentenceBoundaries:
    """The boundaries in one language, a primary subtag; English rules for one that sentencex does not know."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._not_an_end = _not_an_end(language)
        self._has_odd_marks = language in ("el", "hy")

    def mark(self, text: str) -> re.Pattern[str]:
        """What must be in `text` for a sentence to end there."""
        return _WIDE_MARK if self._has_odd_marks or ")" in text or ITEM.match(text) else MARK

    def inside(self, window: str, context: int = 0) -> list[int]:
        """The boundaries strictly inside `window`.

        Where none lies before some offset, `context` spares sentencex the text before it.
        """
        if not self.mark(window).search(window, context):
            return []
        stand_in = window[context:]
        if not (stand_in.isascii() and stand_in.isprintable()):
            stand_in = SURROGATE.sub("\ufffd", _ODD_SPACE.sub(" ", stand_in))
        if self._language == "en":
            stand_in = _PLAIN_WORD_STOP.sub("!", stand_in)
        segments = sentencex.segment(self._language, stand_in)
        if len(segments) < 2:
            return []
        ends = [context + end for end in accumulate(map(len, segments))][:-1]
        if PAIRED.search(window):
            openers = [_OPENER.search(window, max(0, end - _LOOK_BACK_CHARS), end) for end in ends]
            ends = sorted({opener.start() if opener else end for opener, end in zip(openers, ends, strict=True)})
        return [end for end in ends if not self._continues(window, end)]

    def finished_end(self, text: str) -> int:
        """Where the last word of `text` starts if it may continue; else the end of `text`.

        "straw" may continue, and "$3.", "Dr." and "https://exam"; "straw," and "straw." may not.
        """
        if pause := PAUSE_HEAD.search(text):
            return self._before_abbreviations(text, pause.start())
        return self._before_abbreviations(text, len(text) if _FINISHED.search(text) else _last_word(text))

    def _before_abbreviations(self, text: str, end: int) -> int:
        """Without the words before `end` that belong to what follows: "Dr.", and the number of a unit."""
        while (word := _last_word(text[:end].rstrip())) < end:
            last = text[word:end].rstrip()
            belongs = end < len(text) and _COUNTS.fullmatch(last)
            if not last or not (belongs or _UNFINISHED.fullmatch(last)):
                break
            end = word
        return end

    def _continues(self, window: str, end: int) -> bool:
        """Whether the sentence goes on at `end`, although sentencex ends it."""
        if self._not_an_end.search(window, 0, end):
            return True
        if self._language == "en":
            last_words = window[max(0, end - _LOOK_BACK_CHARS) : end].rstrip()
            if last_words.endswith(NEVER_LAST) and _NEVER_LAST.search(last_words):
                return True
            if last_words[-1:] == "." and _SELDOM_LAST.search(last_words) and _CONTINUATION.match(window, end):
                return True
            if last_words.endswith("!") and last_words[-2:-1].isdigit() and window[end:].lstrip()[:1] in "=+*/<>^":
                return True
        # Nothing between mark and word: "Node.JS", "?name=X", "./run.sh".
        before, after = window[end - 1], window[end]
        return (before == "．" or (before.isascii() and not before.isspace())) and (after.isalnum() or after in "_/")


def _not_an_end(language: str) -> re.Pattern[str]:
    """Matches text after which a sentence continues, although sentencex ends it."""
    patterns = [_ITEM_NUMBER]
    if language != "en":
        patterns.append(_INITIAL)
    if language in _ORDINAL_LANGUAGES:
        patterns.append(_ORDINAL)
    return re.compile("|".join(patterns))


def stop_end(head: str, char: str) -> int | None:
    """The end of a sentence in `head`, which ends with a stop such as 。 and its closers before `char`; or None."""
    if head[-1] not in STOP_TAIL:
        return None
    run = STOP_RUN.search(head, len(head.rstrip(STOP_TAIL)))
    if run is None:
        return None
    if run.group() == "．" and char.isdigit() and head[: run.start()][-1:].isdigit():
        return None  # ３．１４
    for at in range(run.start(), run.end()):
        if head[at] == '"' and head.count('"', 0, at) % 2 == 0:
            return at  # opens the next sentence
    return run.end()
