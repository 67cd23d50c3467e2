"""Measures before a noun: "a 5 km run" is a five kilometer run, "it is 5 km away" five kilometers."""

import re

_DETERMINERS = frozenset(
    (
        *("a", "an", "the", "this", "that", "my", "your", "his", "her", "its", "our", "their", "another"),
        *("every", "each", "one", "no", "any", "some", "first", "second", "third", "new"),
        *("these", "those", "several", "many", "few", "two", "three", "four", "five", "six", "seven", "eight"),
        *("nine", "ten", "twelve", "twenty"),
    )
)
_FOLLOWING = re.compile(r"[ -]([A-Za-z][a-z]{1,30})\b(?!')")
_PRECEDING = re.compile(r"([A-Za-z']{1,30}) $")
_NOT_A_NOUN = frozenset(
    (
        *("in", "for", "of", "to", "and", "or", "but", "is", "was", "are", "were", "on", "at", "per"),
        *("with", "from", "by", "as", "that", "which", "more", "less", "off", "each", "every", "extra"),
        *("away", "ago", "long", "wide", "tall", "deep", "high", "old", "thick", "apart", "early", "late"),
        *("later", "before", "after", "above", "below", "over", "under", "than", "if", "when", "so"),
        *("because", "then", "now", "today", "yesterday", "tomorrow", "too", "has", "have", "had", "will"),
        *("would", "could", "should", "may", "might", "must", "worth", "total", "plus", "minus"),
        *("north", "south", "east", "west", "up", "down", "out", "it", "he", "she", "they", "we", "you"),
        *("the", "until", "since", "while", "through", "into", "without", "within", "around", "here"),
        *("there", "last", "next", "a", "an", "this", "only", "left", "remaining", "back", "not", "just"),
        *("please", "all", "seems", "goes", "went"),
    )
)
_DIMENSIONS = frozenset(("long", "wide", "tall", "deep", "high", "old", "thick"))
_MAX_ADJECTIVES = 2


def is_modifier(match: re.Match[str]) -> bool:
    """Whether the matched measure stands between a determiner and a noun."""
    following = _FOLLOWING.match(match.string, match.end())
    if following is not None and following[1] in _DIMENSIONS:  # a 6 ft tall man
        following = _FOLLOWING.match(match.string, following.end())
    if following is None or following[1].lower() in _NOT_A_NOUN:
        return False
    end = match.start()
    for _ in range(1 + _MAX_ADJECTIVES):
        preceding = _PRECEDING.search(match.string, max(0, end - 32), end)
        if preceding is None:
            return False
        word = preceding[1].lower()
        if word in _DETERMINERS:
            return True
        if word in _NOT_A_NOUN - _DIMENSIONS:
            return False
        end = preceding.start()
    return False
