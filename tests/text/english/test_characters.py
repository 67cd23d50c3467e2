"""Quotes, accents and fractions become the characters that the rules expect; other scripts are dropped."""

from realtime_tts.text.english.characters import RULES
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules


def test_characters_are_replaced_or_dropped() -> None:
    for raw, words in [
        ("naïve café", "naive cafe"),
        ("‘it’ «so»", "'it' “so”"),
        ("Łódź ﬁ Æ", "Lodz fi Ae"),
        ("1½ or ½", "1 1/2 or 1/2"),
        ("a\u00adb\u0301c\n你d", "abc  d"),
        ("72°F — €5", "72°F — €5"),
    ]:
        assert apply_rules(AlignedText.of(raw), RULES).text == words, raw
