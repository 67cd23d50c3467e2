"""Who may come in?  API keys, single-use tokens for browsers, and the rules for the Origin and Host headers."""

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from realtime_tts.clock import Clock
from realtime_tts.errors import InvalidKeys, QuotaExceeded, Unauthorized
from realtime_tts.server.rate_limit import QuotaLimits

KEY_PREFIX = "rtts_"
MIN_KEY_CHARS = 24
"""Of a key that the operator brings along: what is guessed, a hash does not protect."""
TOKEN_PROTOCOL = "realtime-tts.token."
"""A browser cannot set headers on a WebSocket, but it can offer subprotocols: this, and the token."""
TOKEN_LIFE_S = 60.0
MAX_TOKENS_PER_KEY = 1000
LIMIT_FIELDS = {"sessions": "sessions", "chars_per_minute": "characters_per_minute"}
"""The names in a key line, and those of `QuotaLimits`."""

_LINE = re.compile(r"(?P<name>[A-Za-z0-9_.-]{1,64}):(?P<digest>[0-9a-fA-F]{64})(?::(?P<limits>.*))?")

_HOST = re.compile(r"[^\s@/?#\\]*")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is kept of a key: never the key itself.

    SHA-256 and not bcrypt: a slow hash makes up for passwords that people choose.  32 random bytes cannot be guessed
    at any speed, and a slow hash before accept would let anyone buy our processor time with wrong keys.
    """

    name: str
    digest: bytes = field(repr=False)
    limits: QuotaLimits = field(default_factory=QuotaLimits)


def digest_of(secret: str) -> bytes:
    # A client can send anything: what is no UTF-8 arrives as surrogates.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def generate_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def key_line(name: str, key: str) -> str:
    """The line of a key file that lets `key` in.  Raises `InvalidKeys` for a name that such a line cannot hold."""
    line = f"{name}:{digest_of(key).hex()}"
    if not _LINE.fullmatch(line):
        raise InvalidKeys("a key's name is 1 to 64 letters, digits, dots, dashes and underscores")
    return line


class KeyStore:
    """The keys that are let in."""

    def __init__(self, keys: Iterable[ApiKey]) -> None:
        self._keys = tuple(keys)
        names = Counter(key.name for key in self._keys)
        if twice := [name for name, count in names.items() if count > 1]:
            raise InvalidKeys(f"two keys have the name {twice[0]}")  # they would share a quota unnoticed
        if not self._keys:
            raise InvalidKeys("there is no key in the list, so nobody could come in")

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> "KeyStore":
        """`name:sha256hex[:sessions=N,chars_per_minute=N]`, one a line; # begins a comment.  Raises `InvalidKeys`."""
        stripped = ((number, line.strip()) for number, line in enumerate(lines, 1))
        return cls(_parsed(line, number) for number, line in stripped if line and not line.startswith("#"))

    @classmethod
    def from_plain(cls, text: str) -> "KeyStore":
        """`name=key,name=key`, or bare keys, as an environment variable holds them.  Raises `InvalidKeys`."""
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
        """All keys are compared, and each in constant time: how long it takes tells nothing."""
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
            raise Unauthorized("a valid key is needed, as the header `Authorization: Bearer KEY`")
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


@dataclass(frozen=True, slots=True)
class _Issued:
    key: ApiKey
    ends_s: float


class TokenStore:
    """Tokens that open one session each, soon.  Kept in memory as hashes: a restart forgets them."""

    def __init__(
        self, clock: Clock, life_s: float = TOKEN_LIFE_S, max_tokens_per_key: int = MAX_TOKENS_PER_KEY
    ) -> None:
        self._clock = clock
        self.life_s = life_s
        self._max_tokens_per_key = max_tokens_per_key
        # All live equally long, so the oldest, which are first, end first.
        self._tokens: dict[bytes, _Issued] = {}
        self._count: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._tokens)

    def issue(self, key: ApiKey) -> str:
        """Raises `QuotaExceeded` where a key holds too many unused ones."""
        now_s = self._clock.now_s()
        self._forget_ended(now_s)
        if self._count[key.name] >= self._max_tokens_per_key:
            raise QuotaExceeded(
                f"this key has {self._max_tokens_per_key} unused tokens already", retry_after_s=self.life_s
            )
        token = secrets.token_urlsafe(32)
        self._tokens[digest_of(token)] = _Issued(key, now_s + self.life_s)
        self._count[key.name] += 1
        return token

    def spend(self, token: str) -> ApiKey:
        """Raises `Unauthorized` for what is unknown, used or too old."""
        # A look-up by hash: whoever times it learns about the hash of a guess, which leads to no token.
        digest = digest_of(token)
        self._forget_ended(self._clock.now_s())
        if digest not in self._tokens:
            raise Unauthorized("the token is unknown, used or too old; get another")
        return self._drop(digest)

    def _forget_ended(self, now_s: float) -> None:
        while self._tokens:
            oldest = next(iter(self._tokens))
            if self._tokens[oldest].ends_s > now_s:
                return
            self._drop(oldest)

    def _drop(self, digest: bytes) -> ApiKey:
        key = self._tokens.pop(digest).key
        self._count[key.name] -= 1
        return key


# -- Where a request comes from, and what it was sent to ---------------------------------------------------------------


def is_loopback(host: str) -> bool:
    """Can only this machine reach an address that is listened on?"""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_of(host_header: str) -> str:
    """The name in a Host header, without its port, in lower case; "" where there is none."""
    if not _HOST.fullmatch(host_header):
        return ""
    try:
        return (urlsplit(f"//{host_header}").hostname or "").rstrip(".")
    except ValueError:  # such as one bracket
        return ""


def is_host_allowed(host_header: str, public_hosts: frozenset[str]) -> bool:
    """Against DNS rebinding: a page whose name points to this machine sends that name as Host, and as Origin."""
    name = host_of(host_header)
    return name in ("localhost", "127.0.0.1", "::1") or name in public_hosts


def is_origin_allowed(origin: str | None, host_header: str, allowed_origins: frozenset[str]) -> bool:
    """Pages of this server and of listed origins; clients that are no browsers send none, and pass."""
    if origin is None or origin in allowed_origins:
        return True
    try:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and bool(parts.netloc) and parts.netloc == host_header
    except ValueError:
        return False
