"""Patterns of the mark-up that the clean-up of text removes: Markdown, tags, addresses, emoji.

None can backtrack far: repetitions are possessive or bounded.  Patterns named `…_HEAD` match a construct of which only
the start was received; `(?:x|\\Z)` in them means "x, or not received yet".
"""

import re

# -- Emoji ------------------------------------------------------------------------------------------------------------

# Shown as pictures by default (and symbols that are not read aloud: stars, ticks, chess, dominoes).
PICTURES = (
    "\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u25fb-\u25fe\u2600-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c"
    "\u2b50\u2b55\U0001f000-\U0001f0ff\U0001f191-\U0001f19a\U0001f1e6-\U0001f1ff\U0001f201-\U0001f265"
    "\U0001f300-\U0001faff"
)
# Text unless U+FE0F follows.
TEXT_PICTURES = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u24c2\u25aa\u25ab\u25b6\u25c0\u3030\u303d\u3297\u3299"
    "\U0001f170\U0001f171\U0001f17e\U0001f17f"
)
# What may follow a picture and belong to it: joiners, variation selectors, keycap, the letters of some flags.
_EMOJI_TAIL = "\u200d\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f"
# A pair of surrogates, as JSON split in two gives them.  All pairs from U+1F000 on are taken for pictures.
_PAIR = "[\ud83c-\ud83e][\udc00-\udfff]"
EMOJI = re.compile(f"[{PICTURES}]|{_PAIR}|[{TEXT_PICTURES}]\ufe0f|[0-9#*]\ufe0f?\u20e3")
EMOJI_HEAD = re.compile(f"[{TEXT_PICTURES}0-9#*]\\Z|[0-9#*]\ufe0f\\Z|[\ud83c-\ud83e]\\Z")
EMOJI_MORE = re.compile(f"(?:[{_EMOJI_TAIL}{PICTURES}]|{_PAIR}|(?<=\u200d)[{TEXT_PICTURES}]|\udb40[\udc20-\udc7f])++")
"""After a picture."""

# -- Markdown ---------------------------------------------------------------------------------------------------------

RULE = re.compile(r"([-*_=])[ \t]*(?:\1[ \t]*){2,}(?=[\r\n]|\Z)")
RULE_HEAD = re.compile(r"([-*_=])[ \t]*(?:\1[ \t]*)*\Z")
HEADING = re.compile(r"#{1,6}(?:[ \t]|(?=[\r\n]|\Z))")
HEADING_HEAD = re.compile(r"#{1,6}\Z")
QUOTE = re.compile(r">(?![\d=])[ \t]?")
BULLET = re.compile(r"[-*+•‣◦][ \t]{1,8}(?:\[[ xX]\][ \t])?|[-*+•‣◦](?=[\r\n]|\Z)")
BULLET_HEAD = re.compile(r"[-*+•‣◦](?:[ \t]{1,8}(?:\[(?:[ xX]\]?)?)?)?\Z")
SEPARATOR_ROW = re.compile(r"\|?[ \t]*+:?-[-:| \t]*+(?=[\r\n]|\Z)")
SEPARATOR_ROW_HEAD = re.compile(r"[-:|][-:| \t]*+\Z")
MAX_RULE_CHARS = 200
CELL_EDGE = re.compile(r"[ \t]{0,64}\|[ \t]{0,64}")

FENCE = re.compile(r"(`{3,80}+(?=[^`\n]*+(?:\n|\Z))|~{3,80}+)[^\n]*+(?:\n|\Z)")
FENCE_HEAD = re.compile(r"(?:`{3,80}+[^`\n]*+|~{3,80}+[^\n]*+|`{1,2}|~{1,2})\Z")
FENCE_INLINE = re.compile(r"(`{3,80}+)[\w+#.-]{0,30}+[ \t]{0,8}+\r?(?:\n|\Z)")
"""Models also open a block in the middle of a line."""
FENCE_INLINE_HEAD = re.compile(r"`{1,80}+[\w+#.-]{0,30}+[ \t]{0,8}+\r?\Z")
MAX_FENCE_CHARS = 120
MAX_TICKS = 20
"""The longest run of backticks around inline code that is distinguished from longer ones."""

LINK_TEXT = re.compile(r"\[((?:[^\[\]\\\n]|\\(?:[^\n]|\Z)|\[[^\[\]\n]*+(?:\]|\Z))*+)")
LINK_TARGET = re.compile(
    r"\(\s{0,4}+(?:<[^<>\n]*+(?:>|\Z)|(?:[^()\s<>]|\([^()\s]*+(?:\)|\Z))*+)"
    r"""(?:\s++(?:(?:"[^"\n]*+(?:"|\Z)|'[^'\n]*+(?:'|\Z))\s{0,4}+)?+)?+"""
)
LINK_REFERENCE = re.compile(r"\[[^\[\]\n]{0,80}+")
MAX_LINK_TEXT_CHARS = 300
MAX_LINK_TARGET_CHARS = 2000
MAX_LINK_REFERENCE_CHARS = 90

HEADING_END = re.compile(r"[ \t]{1,8}#{0,6}[ \t]{0,8}(?=[\r\n]|\Z)")
ESCAPABLE = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\n")

# -- Addresses --------------------------------------------------------------------------------------------------------

_HOST_CHARS = r"A-Za-z0-9\u00c0-\u024f\u0370-\u052f._~%\-"
SCHEMES = ("https://", "http://", "ftp://", "www.")
_HEADS = sorted({scheme[1:end] for scheme in SCHEMES for end in range(1, len(scheme))})
URL_AHEAD = rf"(?<![A-Za-z0-9_@./-].)(?i:ttps?://|tp://|ww\.|(?:{'|'.join(_HEADS)})\Z)"
"""What follows the first letter of an address."""
SCHEME = re.compile(r"(?:https?://|ftp://|www\.)", re.IGNORECASE)
AUTHORITY = re.compile(f"[{_HOST_CHARS}:@!$&'*+,;=]*+")
URL = re.compile(r"(?:(?:https?|ftp)://(?:[^\s/?#@]{1,100}+@)?+(?:www\.(?=[\w-]++\.))?|www\.(?=[\w-]++\.))", re.I)
HOST = re.compile(f"[{_HOST_CHARS}]*+")
MAX_URL_HEAD_CHARS = 400
URL_REST = re.compile(r"""[!#-;=?-Z_a-z~]*+""")
URL_LAST = ".,;:!?')*_~"
"""Punctuation of the sentence around an address, when it ends the address."""
MAX_URL_LAST_CHARS = 16

# -- Tags -------------------------------------------------------------------------------------------------------------

_ATTRIBUTE = r"""\s++[\w:@.-]++\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=]++)"""
TAG = re.compile(
    rf"</?([A-Za-z][\w:.-]*+)(?:{_ATTRIBUTE})*+\s*+/?>"
    r"|<\|[^<>|\n]{1,40}\|>|<![A-Za-z][^<>]{0,200}>|<\?[^<>]{0,200}\?>"
)
"""Also the special tokens of models ("<|im_end|>")."""
TAG_HEAD = re.compile(
    rf"<(?:/?(?:[A-Za-z][\w:.-]*+(?:{_ATTRIBUTE})*+"
    r"""(?:\s++[\w:@.-]++\s*+(?:=\s*+(?:"[^"<]*+|'[^'<]*+|[^\s"'<>=]*+))?+|\s*+/?)?)?"""
    r"|\|[^<>|\n]{0,40}+\|?|!(?:[A-Za-z][^<>]{0,200}+|-)?|\?[^<>]{0,200}+)\Z"
)
MAX_TAG_CHARS = 1000
MAX_CLOSING_TAG_CHARS = 40
COMMENT_END = re.compile("-->")
AUTO_LINK = re.compile(r"<(?:(?:https?|ftp|mailto):|[\w.+-]{1,64}@)[^\s<>]{1,300}>", re.IGNORECASE)
AUTO_LINK_HEAD = re.compile(r"<(?:[\w.+-]{1,64}+(?:[:@][^\s<>]{0,300}+)?)?\Z")
MAX_AUTO_LINK_CHARS = 400
UNSPOKEN_TAGS = frozenset(
    (
        *("think", "thinking", "thought", "thoughts", "reasoning", "scratchpad"),
        *("tool_call", "tool_calls", "function_call", "tool_response", "script", "style"),
    )
)
"""Their content is dropped with them."""
INLINE_TAGS = frozenset(
    (
        *("a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "mark", "q"),
        *("s", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var", "wbr"),
        *("emphasis", "lang", "phoneme", "prosody", "say-as", "voice"),
    )
)
"""Tags that may be inside a word."""
BLOCK_TAGS = frozenset(
    (
        *("article", "blockquote", "br", "dd", "div", "dl", "dt", "footer", "header", "section", "table", "tr"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul", "s:p"),
    )
)
"""Tags that end a line."""
ENTITY = re.compile(r"&(?:#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|[A-Za-z][A-Za-z0-9]{1,31};)")
ENTITY_HEAD = re.compile(r"&(?:#(?:\d{0,7}|[xX][0-9a-fA-F]{0,6})|[A-Za-z][A-Za-z0-9]{0,31})?\Z")
MAX_ENTITY_CHARS = 40
