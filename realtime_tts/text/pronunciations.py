"""How the client wants words to be said: puts their spelling in place, and finds those for which it has given IPA."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from realtime_tts.errors import InvalidConfig
from realtime_tts.text.patterns import UNSPACED

MAX_WORDS = 1000
MAX_CHARS = 200

# "can" is no word of "can't", while "Nguyen" is one of "Nguyen's".  Nor is "3" one of "3.14".
_CONTRACTION = re.compile(r"['’](?![sS]\b)[^\W\d_]")
_INNER_CAPITAL = re.compile(r"\w[A-ZÀ-ÖØ-ÞΑ-ΩА-ЯЁ]")
_MORE_DIGITS = re.compile(r"[.,]\d")


@dataclass(frozen=True, slots=True)
class Respelled:
    """`text` with words respelled.  `edits` are (start, end) in `text` and (start, end) in the original, in order."""

    text: str
    edits: tuple[tuple[int, int, int, int], ...] = ()

    def source(self, offset: int) -> int:
        """The place in the original; for any place inside a respelled word, where that word starts."""
        at = bisect_right(self.edits, offset, key=lambda edit: edit[0]) - 1
        if at < 0:
            return offset
        _, end, original_start, original_end = self.edits[at]
        return original_start if offset < end else original_end + offset - end

    def source_end(self, offset: int) -> int:
        """For the exclusive end of a span: the place in the original right behind what gave `text[offset - 1]`."""
        if offset <= 0:
            return 0
        at = bisect_right(self.edits, offset - 1, key=lambda edit: edit[0]) - 1
        if at >= 0 and offset <= self.edits[at][1]:
            return self.edits[at][3]
        return self.source(offset - 1) + 1


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    end: int
    said: str
    is_ipa: bool


class Pronunciations:
    """Words and how each is said: a spelling ("SQL": "sequel"), or IPA between slashes ("/ˈkoʊkəɹoʊ/").

    Words are found whole, the longest first.  Upper and lower case are one, except in a word with a capital inside
    ("SQL", "iOS"), which is found as written only: "US" is not "us".  Where two words differ in
    case alone, the one as written goes first.  What is put in place is not looked at again.
    """

    __slots__ = ("_by_folded", "_first", "_lengths", "words")

    def __init__(self, words: Mapping[str, str]) -> None:
        """Raises `InvalidConfig` for what is empty, too long, too many, or holds control characters."""
        if len(words) > MAX_WORDS:
            raise InvalidConfig(f"at most {MAX_WORDS} words, got {len(words)}", param="pronunciations")
        self.words = {_checked(word, "word"): _checked(said, "pronunciation") for word, said in words.items()}
        for word, said in self.words.items():
            if _is_ipa(said) and not said[1:-1].strip():
                raise InvalidConfig(f"there is no IPA between the slashes for {_shown(word)}", param="pronunciations")
        self._by_folded: dict[str, list[str]] = {}
        for word in self.words:
            self._by_folded.setdefault(_folded(word), []).append(word)
        lengths: dict[str, set[int]] = {}
        for folded in self._by_folded:
            lengths.setdefault(folded[0], set()).add(len(folded))
        self._lengths = {first: sorted(each, reverse=True) for first, each in lengths.items()}
        self._first = re.compile(f"[{''.join(map(re.escape, lengths))}]") if lengths else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pronunciations) and self.words == other.words

    def __hash__(self) -> int:
        return hash(frozenset(self.words.items()))

    @property
    def spellings(self) -> tuple[tuple[str, str], ...]:
        return tuple((word, said) for word, said in self.words.items() if not _is_ipa(said))

    @property
    def ipa(self) -> tuple[tuple[str, str], ...]:
        """Without the slashes."""
        return tuple((word, said[1:-1].strip()) for word, said in self.words.items() if _is_ipa(said))

    def respell(self, text: str) -> Respelled:
        """`text` with each spelling in place of its word, set off by a space where it would run into its neighbour."""
        parts: list[str] = []
        edits: list[tuple[int, int, int, int]] = []
        done = length = 0
        for found in self._find(text):
            if found.is_ipa:
                continue
            said = found.said
            if _runs_together(text[done : found.start][-1:] or (parts[-1][-1:] if parts else ""), said[0]):
                said = " " + said
            if _runs_together(said[-1], text[found.end : found.end + 1]):
                said += " "
            start = length + found.start - done
            length = start + len(said)
            edits.append((start, length, found.start, found.end))
            parts += (text[done : found.start], said)
            done = found.end
        return Respelled("".join(parts) + text[done:], tuple(edits)) if edits else Respelled(text)

    def ipa_in(self, text: str) -> tuple[tuple[str, str], ...]:
        """The words of `text`, as written there and each once, that have IPA, with it."""
        return tuple({text[found.start : found.end]: found.said for found in self._find(text) if found.is_ipa}.items())

    def _find(self, text: str) -> Iterator[_Found]:
        if self._first is None:
            return
        folded = _folded(text)
        done = 0
        for first in self._first.finditer(folded):
            start = first.start()
            if start >= done and (found := self._find_at(text, folded, start)):
                done = found.end
                yield found

    def _find_at(self, text: str, folded: str, start: int) -> _Found | None:
        if _runs_on(text, start):
            return None
        for length in self._lengths[folded[start]]:
            end = start + length
            words = self._by_folded.get(folded[start:end])
            if words is None or end > len(text) or _runs_on(text, end) or _CONTRACTION.match(text, end):
                continue
            if word := _as_written(words, _spaced(text[start:end])):
                said = self.words[word]
                return _Found(start, end, said[1:-1].strip() if _is_ipa(said) else said, _is_ipa(said))
        return None


def _checked(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidConfig(f"each {what} must be a string, got {type(value).__name__}", param="pronunciations")
    if not value.strip():
        raise InvalidConfig(f"a {what} is empty", param="pronunciations")
    if len(value) > MAX_CHARS:
        raise InvalidConfig(f"a {what} has at most {MAX_CHARS} characters, got {len(value)}", param="pronunciations")
    if any(unicodedata.category(char) == "Cc" for char in value):
        raise InvalidConfig(f"control characters in the {what} {_shown(value)}", param="pronunciations")
    return _spaced(value.strip())


def _shown(text: str) -> str:
    return ascii(text[:40])


def _is_ipa(said: str) -> bool:
    return len(said) > 1 and said[0] == said[-1] == "/"


def _spaced(text: str) -> str:
    return re.sub(r"\s", " ", text)


def _folded(text: str) -> str:
    """In lower case, character by character: no length changes, and σ is σ wherever it stands."""
    return _spaced(text).replace("İ", "I").lower().replace("ς", "σ")


def _as_written(words: list[str], written: str) -> str | None:
    if written in words:
        return written
    return next((word for word in words if not _INNER_CAPITAL.search(word)), None)


def _runs_on(text: str, at: int) -> bool:
    """Whether a word goes on over `at`."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if _runs_together(before, after) or unicodedata.category(after)[0] == "M":
        return True
    if before.isdigit() and _MORE_DIGITS.match(text, at):
        return True
    return before in ".," and after.isdigit() and text[at - 2 : at - 1].isdigit()


def _runs_together(before: str, after: str) -> bool:
    """Whether two neighbours are read as one word."""
    return all(char.isalnum() or char == "_" for char in (before, after)) and not (
        UNSPACED.match(before) or UNSPACED.match(after)
    )


NO_PRONUNCIATIONS = Pronunciations({})
