"""Short forms as they are said: Dr. Smith, e.g., Henry VIII, C++, AWS; and what each leftover symbol is called."""

import re

from realtime_tts.engine.models.kokoro.spoken_numbers import cardinal, ordinal
from realtime_tts.engine.models.kokoro.traced import Rule, rule

# Those that the dictionary knows as they stand (Mr., Mrs., Ms., etc., a.m.) are not listed.
_ABBREVIATIONS = {
    "e.g.": "for example",
    "i.e.": "that is",
    "vs.": "versus",
    "vs": "versus",
    "approx.": "approximately",
    "w/": "with",
    "w/o": "without",
    "Prof.": "Professor",
    "Jr.": "Junior",
    "Sr.": "Senior",
    "dept.": "department",
    "Dept.": "Department",
    "est.": "established",
    "Ave.": "Avenue",
    "Blvd.": "Boulevard",
    "Rd.": "Road",
    "Mt.": "Mount",
    "Ft.": "Fort",
    "Gen.": "General",
    "Sen.": "Senator",
    "Gov.": "Governor",
    "Rev.": "Reverend",
    "Capt.": "Captain",
    "Lt.": "Lieutenant",
    "Sgt.": "Sergeant",
    "Col.": "Colonel",
    "Inc.": "Incorporated",
    "Ltd.": "Limited",
    "Corp.": "Corporation",
    "Co.": "Company",
    "PhD": "Ph.D.",
    "a.k.a.": "also known as",
    "cf.": "compare",
    "et al.": "and others",
    "ca.": "about",
    "C++": "C plus plus",
    "C#": "C sharp",
    "F#": "F sharp",
    ".NET": "dot net",
    "Q&A": "Q and A",
    "R&D": "R and D",
    "24/7": "twenty four seven",
    "and/or": "and or",
    "AWS": "A W S",
    "US": "U.S.",
    "JSON": "jay son",
    "WebRTC": "web R T C",
    "CI/CD": "C I C D",
    "I/O": "I O",
    "TCP/IP": "T C P I P",
    "AT&T": "A T and T",
    "yaml": "yam el",
    "YAML": "yam el",
    "LaTeX": "lay tech",
    "SaaS": "sass",
    "w/e": "whatever",
    "Nginx": "engine X",
    "nginx": "engine X",
    "btw": "by the way",
    "kubectl": "kube control",
    "sudo": "soo doo",
}
_ROMAN = {"I": 1, "V": 5, "X": 10}
_ROYAL = (
    "Henry|Louis|Elizabeth|Charles|George|Edward|William|James|John|Paul|Pius|Benedict|Richard|Napoleon|Philip"
    "|Francis|Catherine|Alexander|Leo|Gregory|Mary|Frederick|Nicholas|Peter"
)
_NUMBERED = "World War|Chapter|Part|Act|Volume|Phase|Type|Super Bowl|Title|Section|Level|Article|Book|Scene|Episode"

_SYMBOLS = {
    "&": "and",
    "@": "at",
    "%": "percent",
    "+": "plus",
    "=": "equals",
    "°": "degrees",
    "©": "copyright",
    "§": "section",
    "→": "to",
    "∞": "infinity",
    "¢": "cents",
    "€": "euros",
    "£": "pounds",
    "$": "dollars",
    "π": "pie",
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "Δ": "delta",
    "λ": "lambda",
    "µ": "mew",
    "θ": "theta",
    "σ": "sigma",
    "ω": "omega",
    "Ω": "omega",
    "ε": "epsilon",
    "Σ": "sigma",
    "μ": "mew",
    "≤": "at most",
    "≥": "at least",
    "≠": "not equal to",
    "≈": "about",
    "×": "times",
    "÷": "divided by",
    "½": "one half",
    "¼": "one quarter",
    "¾": "three quarters",
    "⅓": "one third",
    "⅔": "two thirds",
}


def _roman(text: str) -> int:
    values = [_ROMAN[letter] for letter in text]
    pairs = zip(values, [*values[1:], 0], strict=True)
    return sum(-value if value < following else value for value, following in pairs)


def _royal(match: re.Match[str]) -> str:
    return f"{match[1]} the {ordinal(_roman(match[2]))}"


def _numbered(match: re.Match[str]) -> str:
    return f"{match[1]} {cardinal(str(_roman(match[2])))}"


_ANY = "|".join(re.escape(short) for short in sorted(_ABBREVIATIONS, key=len, reverse=True))

EARLY_RULES: tuple[Rule, ...] = (
    rule(r"\betc\b(?!\.)", "etc."),
    # A title before a name; after one, a street.
    rule(r"\bDr\.(?= [A-Z])", "Doctor"),
    rule(r"(?<=[a-z] )Dr\.(?!\w)", "Drive"),
    rule(r"\bSt\.(?= [A-Z])", "Saint"),
    rule(r"(?<=\w )St\.(?!\w)", "Street"),
    rule(r"\b[Nn]os?\. ?(?=\d)", "number "),
    rule(r"\bp{1,2}\. ?(?=\d)", "page "),
    rule(r"(?<!\d )(?<!\d)\bmin\.(?= [\w(])", "minimum"),
    rule(r"(?<!\d )(?<!\d)\bmax\.(?= [\w(])", "maximum"),
    rule(r"\b[Ff]ig\. ?(?=\d)", "figure "),
    rule(rf"(?<![\w.])({_ANY})(?![\w&/+#$])", lambda match: _ABBREVIATIONS[match[1]]),
    rule(rf"\b({_ROYAL}) ([IVX]{{2,5}}|V|X)\b(?!')", _royal),
    rule(rf"\b({_NUMBERED}) ([IVX]{{2,5}}|V|X)\b(?!')", _numbered),
    rule(r"\b(World War|Chapter|Act) (I)\b(?!')", _numbered),
)

LATE_RULES: tuple[Rule, ...] = (
    rule(r"(?<=\w) ?/ ?(?=\w)", " slash "),
    rule("[" + re.escape("".join(_SYMBOLS)) + "]", lambda match: f" {_SYMBOLS[match[0]]} "),
    # A letter of its own is its name, where "A" would be the article: "plan A." and "A B C", but "A dog".
    rule(r"(?<=[a-z] )A(?=[.,!?;:]|$)|\bA(?= [B-Z]\b)|(?<=\b[B-Z] )A\b", "eigh"),
)
