"""Symbols as spoken: ranges and signs of numbers, operators, and the name of each symbol that is left."""

import re

from realtime_tts.text.english.money import CURRENCY_SIGN
from realtime_tts.text.english.numbers import NUMBER
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
