"""Abbreviations as spoken: Dr. Smith, e.g., 5 lbs., Oak St, C++, AWS, CO2.

The sentence splitter reads the same lists.
"""

import re

from realtime_tts.text.english.numbers import pairs
from realtime_tts.text.rules import Rule, any_of, rule

_TITLES = {
    "Prof.": "Professor",
    "Gen.": "General",
    "Sen.": "Senator",
    "Rep.": "Representative",
    "Gov.": "Governor",
    "Pres.": "President",
    "Rev.": "Reverend",
    "Hon.": "Honorable",
    "Fr.": "Father",
    "Capt.": "Captain",
    "Cmdr.": "Commander",
    "Maj.": "Major",
    "Adm.": "Admiral",
    "Lt.": "Lieutenant",
    "Sgt.": "Sergeant",
    "Cpl.": "Corporal",
    "Pvt.": "Private",
    "Col.": "Colonel",
    "Mt.": "Mount",
    "Ft.": "Fort",
}
DICTIONARY_TITLES = ("Mr.", "Mrs.", "Ms.", "Dr.", "St.", "Messrs.")  # the dictionary of the voice knows them, or a rule

_NUMBERED = {
    "vol.": "volume",
    "vols.": "volumes",
    "ch.": "chapter",
    "chap.": "chapter",
    "eq.": "equation",
    "ext.": "extension",
    "fig.": "figure",
    "figs.": "figures",
    "pp.": "pages",
    "pg.": "page",
    "nos.": "numbers",
}
"""Where a number follows."""

UNITS_WITH_POINT = {
    "hr.": "hr",
    "hrs.": "hrs",
    "min.": "min",
    "mins.": "mins",
    "sec.": "sec",
    "secs.": "secs",
    "lb.": "lb",
    "lbs.": "lbs",
    "oz.": "oz",
    "ft.": "ft",
    "in.": "inches",
    "yd.": "yd",
    "yds.": "yd",
    "mi.": "mi",
    "tbsp.": "tbsp",
    "tbsps.": "tbsp",
    "tsp.": "tsp",
    "tsps.": "tsp",
    "gal.": "gallons",
    "qt.": "quarts",
    "pt.": "pints",
    "kg.": "kg",
    "km.": "km",
    "cm.": "cm",
    "mm.": "mm",
    "ml.": "ml",
    "yr.": "years",
    "yrs.": "years",
    "wk.": "weeks",
    "wks.": "weeks",
    "mo.": "months",
    "mos.": "months",
}
"""After a number.  A sentence ends after them only before a capital."""

_WORDS = {
    "temp.": "temperature",
    "avg.": "average",
    "dept.": "department",
    "est.": "estimated",
    "govt.": "government",
    "univ.": "university",
    "assoc.": "association",
    "asst.": "assistant",
    "assn.": "association",
    "mgr.": "manager",
    "misc.": "miscellaneous",
    "orig.": "original",
    "prev.": "previous",
    "qty.": "quantity",
    "ref.": "reference",
    "req.": "required",
    "attn.": "attention",
    "appt.": "appointment",
    "incl.": "including",
    "excl.": "excluding",
    "esp.": "especially",
    "tel.": "telephone",
    "pkg.": "package",
    "bldg.": "building",
    "intl.": "international",
    "natl.": "national",
    "hwy.": "highway",
    "approx.": "approximately",
}
"""Before a word that they belong to."""

_DAYS = ("Mon.", "Tue.", "Tues.", "Wed.", "Thu.", "Thur.", "Thurs.", "Fri.", "Sat.", "Sun.")
_MONTHS = ("Jan.", "Feb.", "Mar.", "Apr.", "Jun.", "Jul.", "Aug.", "Sep.", "Sept.", "Oct.", "Nov.", "Dec.")


def _capitalized(words: dict[str, str]) -> dict[str, str]:
    return words | {word.capitalize(): spoken.capitalize() for word, spoken in words.items()}


NEVER_LAST = (*_TITLES, *DICTIONARY_TITLES[:3], *_capitalized(_NUMBERED), "approx.", "Approx.", "i.e.", "e.g.")
"""A name, a number or a clause follows these, so no sentence ends after them."""

SELDOM_LAST = (*_capitalized(_WORDS), "max.", *_DAYS, *_MONTHS)
"""A sentence ends after these only before a capital."""

ALSO_WORDS = ("no", "No", "NO", "ok", "Ok", "OK", "me", "ma", "pa", "id", "etc", "ill", "art", "may", "ore", "miss")
"""Abbreviations (number, Oklahoma, Maine …) that are more often plain words, after which a sentence may end."""

# Those that the dictionary of the voice knows as they are (etc., a.m.) are not listed.
_SPOKEN = (
    _capitalized(_WORDS)
    | _TITLES
    | {
        "max.": "maximum",
        "e.g.": "for example",
        "i.e.": "that is",
        "vs.": "versus",
        "vs": "versus",
        "w/": "with",
        "w/o": "without",
        "Jr.": "Junior",
        "Sr.": "Senior",
        "Est.": "Established",
        "Ave.": "Avenue",
        "Blvd.": "Boulevard",
        "Rd.": "Road",
        "Inc.": "Incorporated",
        "Ltd.": "Limited",
        "Corp.": "Corporation",
        "Co.": "Company",
        "PhD": "Ph.D.",
        "PhDs": "P H Ds",
        "WWI": "World War one",
        "WWII": "World War two",
        "WW1": "World War one",
        "WW2": "World War two",
        "c/o": "care of",
        "24-7": "twenty four seven",
        "n/a": "not applicable",
        "N/A": "not applicable",
        "PostgreSQL": "postgres Q L",
        "Postgres": "postgres",
        "MySQL": "my Q L",
        "NoSQL": "no S Q L",
        "SQLite": "S Q light",
        "MongoDB": "mongo D B",
        "OAuth": "oh auth",
        "macOS": "mac O S",
        "YouTube": "you tube",
        "a.k.a.": "also known as",
        "cf.": "compare",
        "et al.": "and others",
        "ca.": "about",
        "btw": "by the way",
        "w/e": "whatever",
        "24/7": "twenty four seven",
        "and/or": "and or",
        "US": "U.S.",
        "Q&A": "Q and A",
        "R&D": "R and D",
        "AT&T": "A T and T",
        "AWS": "A W S",
        "CI/CD": "C I C D",
        "I/O": "I O",
        "TCP/IP": "T C P I P",
        "C++": "C plus plus",
        "C#": "C sharp",
        "F#": "F sharp",
        ".NET": "dot net",
        "JSON": "jay son",
        "yaml": "yam el",
        "YAML": "yam el",
        "WebRTC": "web R T C",
        "LaTeX": "lay tech",
        "SaaS": "sass",
        "Nginx": "engine X",
        "nginx": "engine X",
        "kubectl": "kube control",
        "sudo": "soo doo",
    }
)

_STREETS = {
    "St": "Street",
    "Ave": "Avenue",
    "Av": "Avenue",
    "Rd": "Road",
    "Dr": "Drive",
    "Ln": "Lane",
    "Ct": "Court",
    "Pl": "Place",
    "Sq": "Square",
    "Blvd": "Boulevard",
    "Hwy": "Highway",
    "Pkwy": "Parkway",
    "Ter": "Terrace",
    "Cir": "Circle",
}
_DIRECTIONS = {"N": "North", "S": "South", "E": "East", "W": "West"}
_ONLY_STREETS = ("Blvd", "Ave", "Rd", "Ln", "Hwy", "Pkwy", "St")
"""That mean nothing else after a capitalised word."""

_CAPITALISED = r"[A-Z][a-z]{1,30}"


def _street(match: re.Match[str]) -> str:
    return f"{match[1]} {_STREETS[match[2]]}"


def _address(match: re.Match[str]) -> str:
    """1204 Oak St: the house number in pairs."""
    number, space, name = match[1].partition(" ")
    initial, _, rest = name.partition(" ")
    if direction := _DIRECTIONS.get(initial.rstrip(".")):
        name = f"{direction} {rest}"
    return (pairs(number) if len(number) == 4 else number) + space + name + _STREETS[match[2]]


def _letters(match: re.Match[str]) -> str:
    return " ".join(letter for letter in match[0] if letter.isalpha())


# Chemical formulas: hydrogen, carbon and others of one letter, with at least one number.
_FORMULA = r"(?<![\w-])(?=[A-Z]{1,4}\d)(?:[HCNOFPSKIB]\d{0,2}){2,6}(?!\w)"

RULES: tuple[Rule, ...] = (
    rule(r"(?<![\w/])etc\b(?![./])", "etc."),
    # An address: a house number, a name and a kind of street, with or without the point.
    rule(
        rf"(?<![\w.])(\d{{1,5}} (?:[NSEW]\.? )?(?:(?:{_CAPITALISED}|\d{{1,3}}(?:st|nd|rd|th)) ){{1,3}}?)"
        rf"({any_of(_STREETS)})\b(?:\.(?=,| [a-z]| [NS][EW]?\b))?",
        _address,
    ),
    rule(rf"\b(\d{{1,3}}(?:st|nd|rd|th)) ({any_of(_STREETS)})\b(?!\.|'| [A-Z][a-z])", _street),
    rule(rf"\b({_CAPITALISED}) ({any_of(_ONLY_STREETS)})\b(?!\.|'| [A-Z])", _street),
    rule(
        rf"\b({any_of(_capitalized(_NUMBERED))})(?= ?#?(?:\d|[IVX]{{1,6}}\b))",
        lambda match: _capitalized(_NUMBERED)[match[1]],
    ),
    # The point of a unit ends a sentence only at the end of the text.
    rule(
        rf"(?<=\d)( ?)({any_of(UNITS_WITH_POINT)})(?=[,;:)]| [a-z0-9(])",
        lambda match: match[1] + UNITS_WITH_POINT[match[2]],
    ),
    rule(
        rf"(?<=\d)( ?)({any_of(UNITS_WITH_POINT)})(?=[\"”)]?$)",
        lambda match: f"{match[1]}{UNITS_WITH_POINT[match[2]]}.",
    ),
    rule(r"\b(\d{1,2}) ?ft\.? ?(\d{1,2}) ?in\b", lambda match: f"{match[1]} ft {match[2]} inches"),
    rule(r"\bsq\. ?(?=(?:ft|in|mi|yd|m|km)\b)", "sq "),
    rule(r"(?<!\d )(?<!\d)\b([Ss])ec\. ?(?=\d)", lambda match: f"{match[1]}ection "),
    rule(r"\b[Ee]xt\.? ?(?=\d)", "extension "),
    rule(r"\bApt\.? ?(?=\d)", "Apartment "),
    rule(r"\b[Ee]st\.? (?=\d{4}\b)", "established "),
    rule(_FORMULA, lambda match: re.sub(r"(?<=\w)(?=[A-Z])|(?<=[A-Z])(?=\d)", " ", match[0])),
    rule(r"(?<![\w/])[A-Z]{2,3}(?:/[A-Z]{2,3}){1,3}(?![\w/])", _letters),
    # A title before a name; after one, a street.
    rule(r"\bDr\.(?= [A-Z])", "Doctor"),
    rule(r"(?<=[a-z] )Dr\.(?!\w)", "Drive"),
    rule(rf"\b({_CAPITALISED}) (Dr)(?=[,;]|$| [a-z])", _street),
    rule(r"\bSt\.(?= [A-Z])", "Saint"),
    rule(r"(?<=\w )St\.(?!\w)", "Street"),
    rule(r"\b[Nn]os?\. ?(?=\d)", "number "),
    rule(r"\bp{1,2}\. ?(?=\d)", "page "),
    rule(r"(?<!\d )(?<!\d)\bmin\.(?= [\w(])", "minimum"),
    rule(rf"(?<![\w.])({any_of(_SPOKEN)})(?![\w&/+#$])", lambda match: _SPOKEN[match[1]]),
)
