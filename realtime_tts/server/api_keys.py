"""API keys: their file and environment formats, and the comparison with the key that a client presents."""

import hashlib
import hmac
import re
import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from realtime_tts.errors import InvalidKeys, Unauthorized
from realtime_tts.server.rate_limit import QuotaLimits

KEY_PREFIX = "rtts_"
MIN_KEY_CHARS = 24
"""Of a key that the operator has chosen: a hash does not protect a key that can be guessed."""
LIMIT_FIELDS = {"sessions": "sessions", "chars_per_minute": "characters_per_minute"}
"""The names in a key line, and those of `QuotaLimits`."""

_LINE = re.compile(r"(?P<name>[A-Za-z0-9_.-]{1,64}):(?P<digest>[0-9a-fA-F]{64})(?::(?P<limits>.*))?")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The stored form of a key, without the key itself.

    SHA-256 and not bcrypt: a slow hash protects passwords that people choose.  32 random bytes cannot be guessed at
    any speed, and a slow hash before accept would let anyone use up processor time with wrong keys.
    """

    name: str
    digest: bytes = field(repr=False)
    limits: QuotaLimits = field(default_factory=QuotaLimits)


def digest_of(secret: str) -> bytes:
    # A client can send anything: bytes that are not UTF-8 arrive as surrogates.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def generate_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def key_line(name: str, key: str) -> str:
    """The line of a key file for `key`.  Raises `InvalidKeys` for a name that such a line cannot contain."""
    line = f"{name}:{digest_of(key).hex()}"
    if not _LINE.fullmatch(line):
        raise InvalidKeys("a key's name is 1 to 64 letters, digits, dots, dashes and underscores")
    return line


class KeyStore:
    """The keys that the server accepts."""

    def __init__(self, keys: Iterable[ApiKey]) -> None:
        self._keys = tuple(keys)
        names = Counter(key.name for key in self._keys)
        if twice := [name for name, count in names.items() if count > 1]:
            raise InvalidKeys(f"two keys have the name {twice[0]}")  # they would share a quota
        if not self._keys:
            raise InvalidKeys("there is no key in the list, so no client could connect")

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> "KeyStore":
        """`name:sha256hex[:sessions=N,chars_per_minute=N]`, one a line; # begins a comment.  Raises `InvalidKeys`."""
        stripped = ((number, line.strip()) for number, line in enumerate(lines, 1))
        return cls(_parsed(line, number) for number, line in stripped if line and not line.startswith("#"))

    @classmethod
    def from_plain(cls, text: str) -> "KeyStore":
        """`name=key,name=key`, or bare keys, as in an environment variable.  Raises `InvalidKeys`."""
        keys = []
        for number, part in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
            name, equals, key = part.partition("=")
            if not equals:
                name, key = f"key{number}", part
            if len(key) < MIN_KEY_CHARS:
                raise InvalidKeys(f"key {number} is shorter than {MIN_KEY_CHARS} characters: use `realtime-tts key`")
            keys.append(_parsed(key_line(name, key), number))
        return cls(keys)

    def find(self, secret: str) -> ApiKey | None:
        """Compares all keys, each in constant time: the time reveals nothing."""
        presented = digest_of(secret)
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, presented):
                found = key
        return found

    def authenticate(self, authorization: str | None) -> ApiKey:
        """From the header `Authorization: Bearer KEY`.  Raises `Unauthorized`."""
        scheme, _, secret = (authorization or "").partition(" ")
        key = self.find(secret.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            raise Unauthorized("a valid key is required, as the header `Authorization: Bearer KEY`")
        return key


def _parsed(line: str, number: int) -> ApiKey:
    match = _LINE.fullmatch(line)
    if match is None:
        raise InvalidKeys(f"line {number} is not NAME:SHA256[:sessions=N,chars_per_minute=N]; see `realtime-tts key`")
    limits: dict[str, int] = {}
    for setting in filter(None, (match["limits"] or "").split(",")):
        name, _, value = (part.strip() for part in setting.partition("="))
        if name not in LIMIT_FIELDS or not re.fullmatch(r"[1-9][0-9]{0,9}", value):
            raise InvalidKeys(f"line {number}: a limit is sessions=N or chars_per_minute=N, with N at least 1")
        limits[LIMIT_FIELDS[name]] = int(value)
    return ApiKey(match["name"], bytes.fromhex(match["digest"]), QuotaLimits(**limits))
