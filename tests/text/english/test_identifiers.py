"""Numbers that identify something are spoken digit by digit."""

from realtime_tts.text.english.identifiers import CODE_RULES, RULES
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules


def test_phone_numbers_versions_and_ip_addresses_are_spoken() -> None:
    for raw, words in [
        ("(555) 123-4567", "five five five, one two three, four five six seven"),
        ("+44 20 7946 0958", "plus four four, two zero, seven nine four six, zero nine five eight"),
        ("5551234567", "five five five, one two three, four five six seven"),
        ("12125550199", "one, two one two, five five five, zero one nine nine"),
        ("555.012.3456", "five five five, zero one two, three four five six"),
        ("212 555 0199", "two one two, five five five, zero one nine nine"),
        ("020 7946 0958", "zero two zero, seven nine four six, zero nine five eight"),
        ("07911 123456", "zero seven nine one one, one two three four five six"),
        ("Python 3.11", "Python three point eleven"),
        ("v2", "version two"),
        ("192.168.0.1", "one nine two dot one six eight dot zero dot one"),
    ]:
        assert " ".join(apply_rules(AlignedText.of(raw), RULES).text.split()) == words, raw


def test_codes_are_read_digit_by_digit() -> None:
    for raw, words in [
        ("pin 0042", "pin zero zero four two"),
        ("order #4521", "order four five two one"),
        ("#4521", "number four five two one"),
        ("OTP: 4821", "OTP: four eight two one"),
        ('Your code is "276983".', 'Your code is "two seven six nine eight three".'),
        ("code 12-34-56", "code one two, three four, five six"),
        ("ending in 4821", "ending in four eight two one"),
        ("Room 1204, room 12", "Room twelve oh four, room 12"),
        ("Flight UA 1234, flight 305", "Flight U A twelve thirty four, flight three oh five"),
        ("Suite 300 and Unit 1000", "Suite three hundred and Unit one thousand"),
        ("NY 10001, MA 02139-4307", "N Y one zero zero zero one, M A zero two one three nine, four three zero seven"),
        ("Dial 988 or 911.", "Dial nine eight eight or nine one one."),
        ("IEEE 802.11ac", "IEEE eight oh two dot eleven a c"),
        ("a 1080p video", "a ten eighty p video"),
        ("encode 123", "encode 123"),
    ]:
        assert apply_rules(AlignedText.of(raw), CODE_RULES).text == words, raw
