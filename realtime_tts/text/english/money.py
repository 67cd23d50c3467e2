"""Amounts of money, and numbers with a scale, as spoken: $3.50, C$5, €1.5 million, 27,50 €, 20 USD, 5M."""

import re

from realtime_tts.text.english.modifiers import is_modifier
from realtime_tts.text.english.numbers import NUMBER, cardinal, number
from realtime_tts.text.rules import Rule, any_of, rule

_Names = tuple[str, str, str, str]


def _dollars(country: str) -> _Names:
    return f"{country} dollar", f"{country} dollars", "cent", "cents"


_SIGNS: dict[str, _Names] = {  # one, many, one hundredth, many hundredths
    "$": ("dollar", "dollars", "cent", "cents"),
    "US$": _dollars("U.S."),
    "C$": _dollars("Canadian"),
    "CA$": _dollars("Canadian"),
    "A$": _dollars("Australian"),
    "AU$": _dollars("Australian"),
    "NZ$": _dollars("New Zealand"),
    "HK$": _dollars("Hong Kong"),
    "S$": _dollars("Singapore"),
    "SG$": _dollars("Singapore"),
    "NT$": _dollars("Taiwan"),
    "MX$": ("Mexican peso", "Mexican pesos", "centavo", "centavos"),
    "R$": ("real", "reais", "centavo", "centavos"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₽": ("ruble", "rubles", "kopek", "kopeks"),
    "₩": ("won", "won", "jeon", "jeon"),
    "₺": ("lira", "lira", "kurush", "kurush"),
    "₫": ("dong", "dong", "xu", "xu"),
    "₱": ("peso", "pesos", "centavo", "centavos"),
    "₴": ("hryvnia", "hryvnias", "kopek", "kopeks"),
    "₦": ("naira", "naira", "kobo", "kobo"),
    "₪": ("shekel", "shekels", "agora", "agorot"),
    "฿": ("baht", "baht", "satang", "satang"),
    "₿": ("bitcoin", "bitcoins", "bitcent", "bitcents"),
}
_CODES: dict[str, _Names] = {
    "USD": _SIGNS["US$"],
    "GBP": _SIGNS["£"],
    "EUR": _SIGNS["€"],
    "CAD": _SIGNS["C$"],
    "AUD": _SIGNS["A$"],
    "NZD": _SIGNS["NZ$"],
    "HKD": _SIGNS["HK$"],
    "SGD": _SIGNS["S$"],
    "JPY": _SIGNS["¥"],
    "INR": _SIGNS["₹"],
    "RUB": _SIGNS["₽"],
    "KRW": _SIGNS["₩"],
    "TRY": _SIGNS["₺"],
    "UAH": _SIGNS["₴"],
    "ILS": _SIGNS["₪"],
    "THB": _SIGNS["฿"],
    "BRL": _SIGNS["R$"],
    "MXN": _SIGNS["MX$"],
    "BTC": _SIGNS["₿"],
    "CNY": ("yuan", "yuan", "fen", "fen"),
    "RMB": ("yuan", "yuan", "fen", "fen"),
    "CHF": ("Swiss franc", "Swiss francs", "centime", "centimes"),
    "SEK": ("Swedish krona", "Swedish kronor", "ore", "ore"),
    "NOK": ("Norwegian krone", "Norwegian kroner", "ore", "ore"),
    "DKK": ("Danish krone", "Danish kroner", "ore", "ore"),
    "PLN": ("zloty", "zlotys", "grosz", "groszy"),
    "zl": ("zloty", "zlotys", "grosz", "groszy"),
    "kr": ("krone", "kroner", "ore", "ore"),
    "CZK": ("Czech crown", "Czech crowns", "haler", "halers"),
    "HUF": ("forint", "forints", "filler", "fillers"),
    "ZAR": ("rand", "rand", "cent", "cents"),
    "AED": ("dirham", "dirhams", "fils", "fils"),
}
_DOLLAR_CODES = ("USD", "CAD", "AUD", "NZD", "HKD", "SGD")
_CURRENCIES = _SIGNS | _CODES
_SCALES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion", "t": "trillion"}

_LONG_SIGNS = [sign for sign in _SIGNS if len(sign) > 1]
CURRENCY_SIGN = rf"(?:(?<![A-Za-z])(?:{any_of(_LONG_SIGNS)})|[{''.join(sign for sign in _SIGNS if len(sign) == 1)}])"
_AMOUNT = rf"({NUMBER})"
_SCALE = r"(?:\s?(thousand|million|billion|trillion|lakh|crore|[kK]|[mM]n?|[bB]n?|[tT])\b)?"
_CODE = rf"({any_of(_CODES)})"


def _scaled(amount: str, scale: str | None) -> str:
    return f"{number(amount)} {_SCALES.get(scale.lower(), scale)}" if scale else number(amount)


def _money(amount: str, currency: str, scale: str | None, *, modifier: bool = False) -> str:
    one, many, cent, cents = _CURRENCIES[currency]
    if modifier:
        many, cents = one, cent
    if scale:
        return f"{_scaled(amount, scale)} {many}"
    whole, _, fraction = amount.replace(",", "").partition(".")
    if len(fraction) > 2:
        return f"{number(amount)} {many}"
    hundredths = int(fraction.ljust(2, "0")) if fraction else 0
    units = f"{cardinal(whole or '0')} {one if whole == '1' else many}"
    if not hundredths:
        return units
    parts = f"{cardinal(str(hundredths))} {cent if hundredths == 1 else cents}"
    return f"{units} and {parts}" if whole.strip("0") else parts


def _after_sign(match: re.Match[str]) -> str:
    return f"{_money(match[2], match[1], match[3], modifier=is_modifier(match))} "


def _coded(match: re.Match[str]) -> str:
    return _money(match[1], match[3], match[2]) if match[3] in _DOLLAR_CODES else match[0]


def _range(match: re.Match[str]) -> str:
    """ "$5–10" is five to ten dollars, "$1.5M–$2M" one point five million to two million dollars."""
    sign, low, low_scale, other_sign, high, high_scale = match.groups()
    if other_sign and (other_sign != sign or not (low_scale or high_scale)):
        return match[0]
    return f"{_scaled(low, low_scale)} to {_money(high, sign, high_scale)} "


def _european(match: re.Match[str]) -> str:
    """ "27,50 €" is twenty seven euros fifty."""
    sign = match.groupdict().get("before") or match["after"]
    whole, fraction = match["whole"].replace(".", ""), match["fraction"]
    one, many, *_ = _CURRENCIES[sign]
    cents = "" if fraction in ("", "00") else f" {cardinal(fraction.lstrip('0'))}"
    return f"{cardinal(whole)} {one if whole == '1' else many}{cents} "


_DECIMALS = r"(?P<whole>\d{1,3}(?:\.\d{3}){1,4}|\d{1,6}),(?P<fraction>\d\d)(?!\d|,)"

# Before the ranges of other numbers.
RANGE_RULES: tuple[Rule, ...] = (
    rule(rf"({CURRENCY_SIGN})\s?{_AMOUNT}{_SCALE} ?[-–—] ?({CURRENCY_SIGN})?{_AMOUNT}{_SCALE}(?![\w-])", _range),
)

RULES: tuple[Rule, ...] = (
    rule(rf"(?P<before>{CURRENCY_SIGN})\s?{_DECIMALS}(?P<after>)", _european),
    rule(rf"(?<![\w.,]){_DECIMALS}\s?(?P<after>{CURRENCY_SIGN}|EUR\b)", _european),
    rule(r"(?<![\w.,])(?P<whole>\d{1,3}(?:\.\d{3}){1,4})(?P<fraction>)\s?(?P<after>€|EUR\b)", _european),
    # $5 CAD and CAD $5: the code says which dollars.
    rule(rf"\$\s?{_AMOUNT}{_SCALE} ?([A-Z]{{2}}D)\b", _coded),
    rule(rf"\b({any_of(_DOLLAR_CODES)}) ?\$(?=\d)", lambda match: f"{match[1]} "),
    rule(rf"({CURRENCY_SIGN})\s?{_AMOUNT}{_SCALE}", _after_sign),
    rule(rf"(?<![\w.,]){_CODE}\s?{_AMOUNT}{_SCALE}", lambda match: _money(match[2], match[1], match[3])),
    rule(
        rf"(?<![\w.,]){_AMOUNT}{_SCALE}\s?({CURRENCY_SIGN}(?![\d.])|{_CODE}\b)",
        lambda match: _money(match[1], match[3], match[2], modifier=is_modifier(match)),
    ),
)

# After the units: "5m" is a length.
SCALE_RULES: tuple[Rule, ...] = (
    rule(
        rf"(?<![\w.,]){_AMOUNT}(M|bn|(?<=\.\d)B)\b",  # 5M, 3.2bn, 1.5B; but house 221B
        lambda match: f"{number(match[1])} {_SCALES[match[2].lower()]}",
    ),
)
