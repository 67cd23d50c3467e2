"""Abbreviations are spoken in full where their place determines what they mean, and stay elsewhere."""

from realtime_tts.text.english.abbreviations import RULES
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.rules import apply_rules


def test_abbreviations_are_spoken_in_full() -> None:
    for raw, words in [
        ("Mt. Fuji", "Mount Fuji"),
        ("min. 5", "minimum 5"),
        ("in 5 min. or so", "in 5 min or so"),
        ("It took 5 min.", "It took 5 min."),
        ("6 mos.", "6 months."),
        ("5 lbs. of rice, 3 hrs. later", "5 lbs of rice, 3 hrs later"),
        ("5 ft. 10 in. tall", "5 ft 10 inches tall"),
        ("See vol. 4, Ch. 2, sec. 5", "See volume 4, Chapter 2, section 5"),
        ("I got apt. advice", "I got apt. advice"),
        ("ext. 204, est. 1990, the est. cost", "extension 204, established 1990, the estimated cost"),
        ("The temp. is low.", "The temperature is low."),
        ("5 Oak St", "5 Oak Street"),
        ("1204 N. Main Ave, 1600 Elm Blvd.", "twelve oh four North Main Avenue, sixteen hundred Elm Boulevard."),
        ("25 W 5th St., Ocean Dr", "25 West 5th Street, Ocean Drive"),
        ("Sunset Blvd and 5th Ave", "Sunset Boulevard and 5th Avenue"),
        ("St. John St.", "Saint John Street"),
        ("H2O, CO2 and C6H12O6", "H 2 O, C O 2 and C 6 H 12 O 6"),
        ("AI/ML or TCP/IP", "A I M L or T C P I P"),
        ("PhDs use PostgreSQL, n/a", "P H Ds use postgres Q L, not applicable"),
        ("/etc or etc", "/etc or etc."),
        ("w/o milk, etc", "without milk, etc."),
        ("AT&T", "A T and T"),
        ("let US$ be", "let US$ be"),
        ("p. 7", "page 7"),
    ]:
        assert apply_rules(AlignedText.of(raw), RULES).text == words, raw
