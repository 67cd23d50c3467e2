"""Abbreviations as spoken: Dr. Smith, e.g., C++, AWS; and single letters.

The sentence splitter reads the same lists.
"""

from realtime_tts.text.rules import Rule, any_of, rule

_TITLES = {
    "Prof.": "Professor",
    "Gen.": "General",
    "Sen.": "Senator",
    "Gov.": "Governor",
    "Rev.": "Reverend",
    "Capt.": "Captain",
    "Lt.": "Lieutenant",
    "Sgt.": "Sergeant",
    "Col.": "Colonel",
    "Mt.": "Mount",
    "Ft.": "Fort",
}
_DICTIONARY_TITLES = ("Mr.", "Mrs.", "Ms.")  # the dictionary of the voice knows them as they are

NEVER_LAST = (*_TITLES, *_DICTIONARY_TITLES, "approx.")
"""A name or a number follows these, so no sentence ends after them."""

ALSO_WORDS = ("no", "No", "NO", "ok", "Ok", "OK", "me", "ma", "pa", "id", "etc", "ill", "art", "may", "ore", "miss")
"""Abbreviations (number, Oklahoma, Maine …) that are more often plain words, after which a sentence may end."""

# Those that the dictionary of the voice knows as they are (etc., a.m.) are not listed.
_SPOKEN = _TITLES | {
    "e.g.": "for example",
    "i.e.": "that is",
    "vs.": "versus",
    "vs": "versus",
    "approx.": "approximately",
    "w/": "with",
    "w/o": "without",
    "Jr.": "Junior",
    "Sr.": "Senior",
    "dept.": "department",
    "Dept.": "Department",
    "est.": "established",
    "Ave.": "Avenue",
    "Blvd.": "Boulevard",
    "Rd.": "Road",
    "Inc.": "Incorporated",
    "Ltd.": "Limited",
    "Corp.": "Corporation",
    "Co.": "Company",
    "PhD": "Ph.D.",
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

RULES: tuple[Rule, ...] = (
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
    rule(rf"(?<![\w.])({any_of(_SPOKEN)})(?![\w&/+#$])", lambda match: _SPOKEN[match[1]]),
)

# A letter of its own is its name, where "A" would be the article: "plan A." and "A B C", but "A dog".
LETTER_RULES: tuple[Rule, ...] = (rule(r"(?<=[a-z] )A(?=[.,!?;:]|$)|\bA(?= [B-Z]\b)|(?<=\b[B-Z] )A\b", "eigh"),)
