"""Measures are spoken with their units, in the singular for one."""

from realtime_tts.text.english.units import EARLY_RULES, RULES
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules


def test_measures_are_spoken() -> None:
    for raw, words in [
        ("1 km", "one kilometer"),
        ("5km/h", "five kilometers per hour"),
        ("90° turn", "ninety degrees turn"),
        ("5m²", "five square meters"),
        ("five dollars/month", "five dollars per month"),
        ("2 tbsp and 1 tsp", "two tablespoons and one teaspoon"),
        ("5 µg, 5 μg", "five micrograms , five micrograms"),
        (
            "9.8 m/s², 9.8 m/s^2",
            "nine point eight meters per second squared , nine point eight meters per second squared",
        ),
        ("5 m3, 2 km^2", "five cubic meters , two square kilometers"),
        ("10 kΩ, 300 kwh", "ten kilohms , three hundred kilowatt hours"),
        ("120/80 mmHg", "one hundred twenty over eighty millimeters of mercury"),
        ("5 mg/dL", "five milligrams per deciliter"),
        ("a 5 km run", "a five kilometer run"),
        ("a 5-km run", "a five kilometer run"),
        ("a 64 GB phone", "a sixty four gigabyte phone"),
        ("a 6 ft tall man", "a six foot tall man"),
        ("it is 5 km away", "it is five kilometers away"),
    ]:
        assert " ".join(apply_rules(AlignedText.of(raw), RULES).text.split()) == words, raw


def test_heights_and_durations_are_spoken() -> None:
    for raw, words in [
        ("5'10\"", "five foot ten"),
        ("1h 5m", "one hour five minutes"),
        ("5m30s, 1h30", "five minutes thirty seconds, one hour thirty minutes"),
        ("~5", "about 5"),
    ]:
        assert " ".join(apply_rules(AlignedText.of(raw), EARLY_RULES).text.split()) == words, raw
