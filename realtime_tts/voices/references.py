"""Reference recordings: the forms in which a client may send `ref_audio`."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

from realtime_tts.audio.decode import AudioUrl, decode_audio, parse_ref_audio
from realtime_tts.engine.api import Reference
from realtime_tts.errors import InvalidConfig
from realtime_tts.session.settings import VOICE_SCHEME
from realtime_tts.voices.store import VoiceLimits, VoiceStore


class References:
    """Resolves `ref_audio`: an uploaded voice, a recording in the message, or the URL of one.

    An instance is a session's `fetch_reference`.
    """

    def __init__(
        self,
        store: VoiceStore | None,
        limits: VoiceLimits | None = None,
        fetch_url: Callable[[str], Awaitable[bytes]] | None = None,
    ) -> None:
        """`store` is None if uploads are disabled, `fetch_url` if the operator does not allow URLs."""
        self._store = store
        self._limits = limits or VoiceLimits()
        self._fetch_url = fetch_url

    async def __call__(self, ref_audio: str) -> Reference:
        """Raises `InvalidConfig` for `ref_audio` or `voice`."""
        if ref_audio.startswith(VOICE_SCHEME):
            if self._store is None:
                raise InvalidConfig("this server keeps no uploaded voices", param="ref_audio")
            return await asyncio.to_thread(self._store.reference, ref_audio.removeprefix(VOICE_SCHEME))
        data = await asyncio.to_thread(parse_ref_audio, ref_audio, max_bytes=self._limits.max_bytes)
        if isinstance(data, AudioUrl):
            if self._fetch_url is None:
                raise InvalidConfig("this server fetches no URLs; send the recording itself", param="ref_audio")
            data = await self._fetch_url(data.url)
        return await asyncio.to_thread(self._decoded, data)

    def _decoded(self, data: bytes) -> Reference:
        samples, rate_hz = decode_audio(data, max_bytes=self._limits.max_bytes, max_s=self._limits.max_s)
        return Reference(hashlib.sha256(data).hexdigest(), samples, rate_hz)
