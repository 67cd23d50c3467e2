"""Numbers that identify something are spoken digit by digit."""

from realtime_tts.text.english.identifiers import CODE_RULES, RULES
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules


def test_phone_numbers_versions_and_ip_addresses_are_spoken() -> None:
    for raw, words in [
        ("(555) 123-4567", "five five five, one two three, four five six seven"),
        ("+44 20 7946 0958", "plus four four, two zero, seven nine four six, zero nine five eight"),
        ("v2", "version two"),
        ("192.168.0.1", "one nine two dot one six eight dot zero dot one"),
    ]:
        assert " ".join(apply_rules(AlignedText.of(raw), RULES).text.split()) == words, raw


def test_codes_are_read_digit_by_digit() -> None:
    for raw, words in [
        ("pin 0042", "pin zero zero four two"),
        ("order #4521", "order four five two one"),
        ("#4521", "number four five two one"),
    ]:
        assert apply_rules(AlignedText.of(raw), CODE_RULES).text == words, raw
