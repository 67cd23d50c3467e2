"""Pronunciations of words, as a client configures them: respelling in the text, and lookup of IPA."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from realtime_tts.errors import InvalidConfig
from realtime_tts.text.offsets import AlignedText, OffsetMap
from realtime_tts.text.unicode import UNSPACED

MAX_WORDS = 1000
MAX_CHARS = 200

# "can" is not a word of "can't", while "Nguyen" is one of "Nguyen's".  Nor is "3" one of "3.14".
_CONTRACTION = re.compile(r"['’](?![sS]\b)[^\W\d_]")
_INNER_CAPITAL = re.compile(r"\w[A-ZÀ-ÖØ-ÞΑ-ΩА-ЯЁ]")
_MORE_DIGITS = re.compile(r"[.,]\d")


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    end: int
    spelling: str
    is_ipa: bool


class Pronunciations:
    """Words and the pronunciation of each: a spelling ("SQL": "sequel"), or IPA between slashes ("/ˈkoʊkəɹoʊ/").

    Only whole words match, the longest first.  Upper and lower case are equal, except in a word with a capital inside
    ("SQL", "iOS"), which matches as written only: "US" is not "us".  Where two words differ in case alone, the one as
    written takes precedence.  A replacement is not searched again.
    """

    __slots__ = ("_by_folded", "_first", "_lengths", "words")

    def __init__(self, words: Mapping[str, str]) -> None:
        """Raises `InvalidConfig` for too many words, and for one that is empty, too long or has control characters."""
        if len(words) > MAX_WORDS:
            raise InvalidConfig(f"at most {MAX_WORDS} words, got {len(words)}", param="pronunciations")
        self.words = {_checked(word, "word"): _checked(spelling, "pronunciation") for word, spelling in words.items()}
        for word, spelling in self.words.items():
            if _is_ipa(spelling) and not spelling[1:-1].strip():
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
    def ipa(self) -> tuple[tuple[str, str], ...]:
        """Without the slashes."""
        return tuple((word, spelling[1:-1].strip()) for word, spelling in self.words.items() if _is_ipa(spelling))

    def respell(self, text: str) -> AlignedText:
        """`text` with each spelling in place of its word; every character of a spelling stands for the whole word.

        A space separates a spelling from a neighbour with which it would be read as one word.
        """
        parts: list[str] = []
        offsets = OffsetMap()
        done = 0
        for found in self._find(text):
            if found.is_ipa:
                continue
            kept, spelling = text[done : found.start], found.spelling
            if _runs_together(kept[-1:] or (parts[-1][-1:] if parts else ""), spelling[0]):
                spelling = " " + spelling
            if _runs_together(spelling[-1], text[found.end : found.end + 1]):
                spelling += " "
            offsets.append_copy(done, len(kept))
            offsets.append_replacement(found.start, found.end, len(spelling))
            parts += (kept, spelling)
            done = found.end
        offsets.append_copy(done, len(text) - done)
        return AlignedText("".join(parts) + text[done:], offsets)

    def ipa_in(self, text: str) -> tuple[tuple[str, str], ...]:
        """The words of `text` that have IPA, as written there and each once, with their IPA."""
        return tuple(
            {text[found.start : found.end]: found.spelling for found in self._find(text) if found.is_ipa}.items()
        )

    def added_by_ipa(self, text: str) -> int:
        """How many more symbols the IPA of its words has than they have letters."""
        return sum(len(found.spelling) - (found.end - found.start) for found in self._find(text) if found.is_ipa)

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
                spelling = self.words[word]
                return _Found(start, end, spelling[1:-1].strip() if _is_ipa(spelling) else spelling, _is_ipa(spelling))
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


def _is_ipa(spelling: str) -> bool:
    return len(spelling) > 1 and spelling[0] == spelling[-1] == "/"


def _spaced(text: str) -> str:
    return re.sub(r"\s", " ", text)


def _folded(text: str) -> str:
    """In lower case, character by character: the length stays, and a final σ is a σ."""
    return _spaced(text).replace("İ", "I").lower().replace("ς", "σ")


def _as_written(words: list[str], written: str) -> str | None:
    if written in words:
        return written
    return next((word for word in words if not _INNER_CAPITAL.search(word)), None)


def _runs_on(text: str, at: int) -> bool:
    """Whether `at` is inside a word."""
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
