"""Addresses, file names and identifiers as spoken: "example dot com slash docs", "bob at …", "snake case"."""

import re

from realtime_tts.text.english.numbers import cardinal, digits
from realtime_tts.text.rules import Rule, rule

_SYMBOLS = {
    ".": "dot",
    "/": "slash",
    "-": "dash",
    "_": "underscore",
    "@": "at",
    "?": "question mark",
    "=": "equals",
    "&": "and",
    "#": "hash",
    ":": "colon",
    "%": "percent",
    "+": "plus",
    "~": "tilde",
}
_PARTS = re.compile(r"[A-Z]{2,40}(?![a-z])|[A-Z]?[a-z]{1,40}|[A-Z]|\d{1,40}|[./_@?=&#:%+~-]")

# Spelled in capitals, which the dictionary of the voice reads letter by letter: "py" would rhyme with "happy".
_SPELLED = frozenset(
    (
        *("ai", "api", "asr", "cpp", "cpu", "css", "csv", "de", "dns", "eu", "exe", "fr", "ftp", "gpu", "gz", "html"),
        *("http", "https", "id", "io", "ip", "jpg", "js", "llm", "md", "mp", "pdf", "png", "py", "rs", "sh", "sql"),
        *("ssh", "tcp", "ts", "tts", "tv", "txt", "udp", "ui", "uk", "url", "us", "wav", "www", "xml"),
    )
)
_RESPELLED = {
    "json": "jay son",
    "yaml": "yam el",
    "toml": "tom el",
    "jpeg": "JPEG",
    "github": "GitHub",
    "gmail": "gee mail",
}
_TOP_LEVEL = "com|org|net|io|dev|ai|app|co|uk|de|fr|edu|gov|info|me|tv|eu|us|ca|au|nl|xyz"
_EXTENSIONS = (
    "py|js|ts|tsx|md|txt|json|yaml|yml|toml|csv|pdf|png|jpe?g|gif|html?|css|cpp|rs|go|sh|exe|zip|gz|wav|mp3|mp4|docx?"
    "|xlsx?|pptx?|xml|sql|java|log|ini|cfg|env|onnx|bin"
)


def speak(address: str) -> str:
    """Every part of an address in words, with nothing left out but capitals."""
    return " ".join(_part(part) for part in _PARTS.findall(address))


def spell(word: str) -> str:
    """A word of a name: "py" -> "PY", which is then read letter by letter."""
    lower = word.lower()
    return _RESPELLED.get(lower) or (word.upper() if lower in _SPELLED else word)


def _part(part: str) -> str:
    if part.isdecimal():
        return digits(part) if len(part) > 2 else cardinal(part)
    return _SYMBOLS.get(part) or spell(part)


def _address(match: re.Match[str]) -> str:
    """A URL without its scheme and `www.`, and without the punctuation of the sentence around it."""
    address = match[0].rstrip(".,;:!?)]}'\"")
    after = match[0][len(address) :]
    bare = re.sub(r"^(?:https?://|ftp://|wss?://)?(?:www\.)?", "", address, flags=re.IGNORECASE).rstrip("/")
    return f" {speak(bare)}{after} "


def _address_path(path: str) -> str:
    """A path in words, with the sentence's full stop after it."""
    bare = path.rstrip(".")
    return speak(bare) + path[len(bare) :]


def _words_of(name: str) -> str:
    """snake_case, __init__ and main.py by their words, without the underscores."""
    return " ".join(_part(part) for part in _PARTS.findall(name) if part not in "_-")


RULES: tuple[Rule, ...] = (
    rule(r"\b(?:(?:https?|wss?|ftp)://|www\.)[^\s<>\"]{1,2000}", _address, re.IGNORECASE),
    rule(
        r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,4}[A-Za-z]{2,24}(?!\w)",
        lambda match: f" {speak(match[0])} ",
    ),
    rule(
        rf"(?<![\w@./-])(?:[A-Za-z0-9-]{{1,63}}\.){{1,4}}(?:{_TOP_LEVEL})\b(?![\w.]\w)(?:/[^\s<>\"]{{0,2000}})?",
        _address,
    ),
    rule(r"(?<![\w./])localhost:\d{1,5}(?:/[^\s<>\"]{0,2000})?", _address),
    rule(
        r"(?<![\w./])(\.{1,2}|~)/([\w./-]{1,200})",
        lambda match: (
            f" {'dot ' * match[1].count('.')}{'tilde ' * match[1].count('~')}slash {_address_path(match[2])} "
        ),
    ),
    rule(r"(?<![\w/.<)])((?:/[A-Za-z][\w.-]{0,60}){2,20})", lambda match: f" {_address_path(match[1])} "),
    rule(
        rf"(?<![\w.-])[\w-]{{1,80}}(?:\.[\w-]{{1,40}}){{0,3}}\.(?:{_EXTENSIONS})\b(?![.\w]\w)",
        lambda match: _words_of(match[0]),
        re.IGNORECASE,
    ),
    rule(r"(?<![\w@])@(\w{1,60})", lambda match: f"at {_words_of(match[1])}"),
    rule(r"(?<![\w#&])#([A-Za-z]\w{0,60})", lambda match: f"hashtag {_words_of(match[1])}"),
    rule(r"(?<![\w_])(?=\w{0,80}_)\w{2,80}(?!\w)", lambda match: _words_of(match[0])),
)
