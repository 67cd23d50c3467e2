"""Single-use tokens: each lets a browser open one session without the API key."""

import secrets
from collections import Counter
from dataclasses import dataclass

from realtime_tts.clock import Clock
from realtime_tts.errors import QuotaExceeded, Unauthorized
from realtime_tts.server.api_keys import ApiKey, digest_of

TOKEN_PROTOCOL = "realtime-tts.token."
"""A browser cannot set headers on a WebSocket, but it can offer subprotocols: this prefix, and the token."""
TOKEN_LIFE_S = 60.0
MAX_TOKENS_PER_KEY = 1000


@dataclass(frozen=True, slots=True)
class _Issued:
    key: ApiKey
    expires_s: float


class TokenStore:
    """Kept in memory as hashes: a restart forgets all tokens."""

    def __init__(
        self, clock: Clock, life_s: float = TOKEN_LIFE_S, max_tokens_per_key: int = MAX_TOKENS_PER_KEY
    ) -> None:
        self._clock = clock
        self.life_s = life_s
        self._max_tokens_per_key = max_tokens_per_key
        # All have the same lifetime, so the oldest, which come first, expire first.
        self._tokens: dict[bytes, _Issued] = {}
        self._unused: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._tokens)

    def issue(self, key: ApiKey) -> str:
        """Raises `QuotaExceeded` if a key has too many unused tokens."""
        now_s = self._clock.now_s()
        self._remove_expired(now_s)
        if self._unused[key.name] >= self._max_tokens_per_key:
            raise QuotaExceeded(
                f"this key has {self._max_tokens_per_key} unused tokens already", retry_after_s=self.life_s
            )
        token = secrets.token_urlsafe(32)
        self._tokens[digest_of(token)] = _Issued(key, now_s + self.life_s)
        self._unused[key.name] += 1
        return token

    def redeem(self, token: str) -> ApiKey:
        """The key that the token was issued for.  Raises `Unauthorized` for an unknown, used or expired token."""
        # A look-up by hash: its time reveals something about the hash of a guess, which leads to no token.
        digest = digest_of(token)
        self._remove_expired(self._clock.now_s())
        if digest not in self._tokens:
            raise Unauthorized("the token is unknown, used or expired; request another")
        return self._remove(digest)

    def _remove_expired(self, now_s: float) -> None:
        while self._tokens:
            oldest = next(iter(self._tokens))
            if self._tokens[oldest].expires_s > now_s:
                return
            self._remove(oldest)

    def _remove(self, digest: bytes) -> ApiKey:
        key = self._tokens.pop(digest).key
        self._unused[key.name] -= 1
        return key
