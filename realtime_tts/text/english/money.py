"""Amounts of money, and numbers with a scale, as spoken: $3.50, €1.5 million, 20 USD, 5M."""

from realtime_tts.text.english.numbers import NUMBER, cardinal, number
from realtime_tts.text.rules import Rule, rule

_CURRENCIES = {  # one, many, one hundredth, many hundredths
    "$": ("dollar", "dollars", "cent", "cents"),
    "US$": ("U.S. dollar", "U.S. dollars", "cent", "cents"),
    "USD": ("U.S. dollar", "U.S. dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "GBP": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "EUR": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
_SCALES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion", "t": "trillion"}

CURRENCY_SIGN = r"(?:US\$|[$£€¥₹])"
_AMOUNT = rf"({NUMBER})"
_SCALE = r"(?:\s?(thousand|million|billion|trillion|[kK]|[mM]n?|[bB]n?|[tT])\b)?"


def _money(amount: str, currency: str, scale: str | None) -> str:
    one, many, cent, cents = _CURRENCIES[currency]
    if scale:
        return f"{number(amount)} {_SCALES.get(scale.lower(), scale)} {many}"
    whole, _, fraction = amount.replace(",", "").partition(".")
    if len(fraction) > 2:
        return f"{number(amount)} {many}"
    hundredths = int(fraction.ljust(2, "0")) if fraction else 0
    units = f"{cardinal(whole or '0')} {one if whole == '1' else many}"
    if not hundredths:
        return units
    parts = f"{cardinal(str(hundredths))} {cent if hundredths == 1 else cents}"
    return f"{units} and {parts}" if whole.strip("0") else parts


RULES: tuple[Rule, ...] = (
    rule(
        rf"({CURRENCY_SIGN})\s?{_AMOUNT}{_SCALE}",
        lambda match: f"{_money(match[2], match[1], match[3])} ",
    ),
    rule(rf"(?<![\w.,])(USD|GBP|EUR)\s{_AMOUNT}{_SCALE}", lambda match: _money(match[2], match[1], match[3])),
    rule(
        rf"(?<![\w.,]){_AMOUNT}{_SCALE}\s?(€|£|USD\b|GBP\b|EUR\b)", lambda match: _money(match[1], match[3], match[2])
    ),
)

# After the units: "5m" is a length.
SCALE_RULES: tuple[Rule, ...] = (
    rule(
        rf"(?<![\w.,]){_AMOUNT}(M|bn|(?<=\.\d)B)\b",  # 5M, 3.2bn, 1.5B; but house 221B
        lambda match: f"{number(match[1])} {_SCALES[match[2].lower()]}",
    ),
)
