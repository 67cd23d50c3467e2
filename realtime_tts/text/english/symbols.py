"""Symbols as spoken: ranges and signs of numbers, operators, and the name of each symbol that is left."""

import re

from realtime_tts.text.english.money import CURRENCY_SIGN
from realtime_tts.text.english.numbers import NUMBER, cardinal, ordinal
from realtime_tts.text.rules import Rule, rule

_OPERATORS = {"+": "plus", "=": "equals", "×": "times", "*": "times", "÷": "divided by", "<": "is less than"}
_OPERATORS |= {">": "is greater than", "≤": "is at most", "≥": "is at least", "≠": "is not equal to", "≈": "is about"}
_OPERATORS |= {"==": "equals", "<=": "is at most", ">=": "is at least", "!=": "is not equal to", "-": "minus"}
_OPERATORS |= {"−": "minus", "–": "minus", "/": "divided by", "->": "to", "→": "to", "^": "to the power of"}

_NAMES = {
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

_COMPARISONS = {">": "more than", "<": "less than", ">=": "at least", "<=": "at most", "≥": "at least", "≤": "at most"}
_POWERS = {"2": "squared", "²": "squared", "3": "cubed", "³": "cubed"}


def _power(match: re.Match[str]) -> str:
    """x^2 is "x squared", 10^8 "ten to the eighth", 10^-3 "ten to the minus three"."""
    base, sign, exponent = match[1], match[2], match[3]
    if not sign and exponent in _POWERS and (base, exponent) != ("10", "3"):
        return f"{base} {_POWERS[exponent]}"
    return f"{base} {_exponent(sign, exponent)}"


def _exponent(sign: str, exponent: str) -> str:
    if not exponent.isdecimal():
        return f"to the power of {'minus ' if sign else ''}{exponent}"
    return f"to the minus {cardinal(exponent)}" if sign in ("-", "−") else f"to the {ordinal(int(exponent))}"


def _scientific(match: re.Match[str]) -> str:
    return f"{match[1]} times ten {_exponent(match[2].strip('+'), match[3])}"


EARLY_RULES: tuple[Rule, ...] = (
    # Before anything else that has a number.
    rule(r"(?<!\S)--(?!\S)|(?<=[A-Za-z,.])--(?=[A-Za-z])", " — "),
    rule(r"(?<=\d)!(?= ?[=+*/×÷-])", " factorial "),
    rule(r"(?<![\w.])(\d{1,20}(?:\.\d{1,20})?)[eE]([+-]?)(\d{1,3})(?!\w|\.\d)", _scientific),
    rule(r"(?<![^\W_]{20})([^\W_]{1,20}|\))\^[({]?([-−]?)(\d{1,3}|[a-z])(?!\w)[)}]?", _power),
    # Of two things compared the first is before the sign: "a > b".  Here it is not.
    rule(rf"(?<![^\s(\"“])(>=|<=|[<>≥≤])(?=(?:{CURRENCY_SIGN})?\.?\d)", lambda match: f"{_COMPARISONS[match[1]]} "),
    rule(rf"^\s{{0,9}}(>=|<=|[<>≥≤]) (?=(?:{CURRENCY_SIGN})?\.?\d)", lambda match: f"{_COMPARISONS[match[1]]} "),
    rule(r"(?<!\w)([A-Z])\+(?![\w+])", lambda match: f"{match[1]} plus"),
    rule(r"(?<!\w)([A-F])-(?=[ ,.;!?)]|$)(?! -)", lambda match: f"{match[1]} minus"),
)

# Ranges only lose their dash here; the rules for money, units and numbers decide how each end is spoken.
RANGE_RULES: tuple[Rule, ...] = (
    rule(
        rf"(?<![\w.,)-])({CURRENCY_SIGN}?{NUMBER}%?)\s?[-–—](?={CURRENCY_SIGN}?\d)(?!\d{{1,20}}-)",
        lambda match: f"{match[1]} to ",
    ),
    rule(r"(?<=\d) ?[–—] ?(?=\d)", " to "),
    rule(rf"(?<![\w)])[-−](?={CURRENCY_SIGN}?\.?\d)", "minus "),
)

OPERATOR_RULES: tuple[Rule, ...] = (
    rule(r"(?<=\d) ?x ?(?=\d)", " by "),
    rule(
        r"(?<=[\d\w)]) (==|<=|>=|!=|->|[+=×*÷<>≤≥≠≈^→]|[-−–/](?= ?[\d(]))(?= [\w(.])",
        lambda match: f" {_OPERATORS[match[1]]} ",
    ),
    rule(r"(?<=\d)(==|<=|>=|!=|[+=×*÷<>≤≥≠≈^])(?=[\d(])", lambda match: f" {_OPERATORS[match[1]]} "),
    rule(r"(?<=[\w)]) ?= ?(?=[\w(])", " equals "),
    rule(r"(?<=\w)²", " squared "),
    rule(r"(?<=\w)³", " cubed "),
    rule(r"±", " plus or minus "),
    rule(r"√ ?(?=[\w(])", " the square root of "),
    rule(r"#(?=\d)", "number "),
)

NAME_RULES: tuple[Rule, ...] = (
    rule(r"(?<=\w) ?/ ?(?=\w)", " slash "),
    rule("[" + re.escape("".join(_NAMES)) + "]", lambda match: f" {_NAMES[match[0]]} "),
)
