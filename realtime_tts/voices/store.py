"""Voices that clients have uploaded: recordings with a name and a consent, kept on disk through crashes."""

import asyncio
import hashlib
import io
import logging
import os
import re
import tempfile
import threading
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import soundfile
from msgspec import Meta, Struct

from realtime_tts.audio.decode import AudioUrl, decode_audio, parse_ref_audio
from realtime_tts.audio.pcm import Float32
from realtime_tts.audio.resample import StreamingResampler
from realtime_tts.engine.api import Reference
from realtime_tts.errors import InvalidConfig, UnknownVoice, VoiceExists, VoiceStoreFull
from realtime_tts.session.settings import VOICE_SCHEME
from realtime_tts.text.unicode import printable

log = logging.getLogger(__name__)

STORED_RATE_HZ = 24_000
"""`ref_audio` of an uploaded voice: `voice:NAME`."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TEMPORARY = ".new-"


@dataclass(frozen=True, slots=True)
class VoiceLimits:
    max_bytes: int = 10 * 1024 * 1024
    """Of one uploaded file; OpenAI's limit."""
    min_s: float = 1.0
    max_s: float = 60.0
    max_voices: int = 1000
    max_total_bytes: int = 1024**3
    """As stored: 48 kB a second."""
    max_text_chars: int = 2000
    """Of `consent` and of `ref_text`, each."""


class StoredVoice(Struct, frozen=True, kw_only=True):
    """What is known of one uploaded voice; its JSON on disk.  A name on disk must be one that may be uploaded."""

    version: int
    name: Annotated[str, Meta(pattern=rf"^{_NAME.pattern}\Z")]
    consent: str
    """The words in which whoever uploaded it said that the speaker agrees."""
    created_at: float
    """When that was: Unix time in seconds."""
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    """Of the audio file as stored."""
    size_bytes: int
    duration_s: float
    ref_text: str | None = None
    """What is said in it."""


class VoiceStore:
    """The voices of one folder, which belongs to one process.  All methods block, and may be called from any thread.

    A voice is two files: the audio, named for voice and content, and the metadata, which names it.  The metadata's
    rename is the moment at which a voice comes to be, its removal that at which it ends: whatever a crash leaves
    beside it belongs to nobody, and is removed at the next start.
    """

    def __init__(self, folder: Path, limits: VoiceLimits | None = None, *, reserved: Collection[str] = ()) -> None:
        """`reserved` are names that no upload may take, such as the model's own voices.  Raises `OSError`."""
        self.limits = limits or VoiceLimits()
        self.problems: list[str] = []
        """What was found and passed over at the start, in words."""
        self._folder = folder
        self._reserved = frozenset(name.lower() for name in reserved)
        self._changing = threading.Lock()
        self._voices: dict[str, StoredVoice] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in sorted(folder.glob("*.json")):
            self._load(path)
        self._clean()

    def voices(self) -> tuple[StoredVoice, ...]:
        """In the order of their names."""
        return tuple(voice for _key, voice in sorted(self._voices.copy().items()))

    def find(self, name: str) -> StoredVoice | None:
        return self._voices.get(name.lower())

    def add(
        self, name: str, audio: bytes, *, consent: str, created_at: float, ref_text: str | None = None
    ) -> StoredVoice:
        """Keeps a new voice; when this returns it is on the disk.

        Raises `InvalidConfig` naming the field, `VoiceExists`, `VoiceStoreFull`, or `OSError` where the disk fails.
        """
        self._check_name(name)
        self._check_texts(consent, ref_text)
        samples = self._decode(audio)
        stored = _wav(samples)
        voice = StoredVoice(
            version=1,
            name=name,
            consent=consent.strip(),
            created_at=created_at,
            sha256=hashlib.sha256(stored).hexdigest(),
            size_bytes=len(stored),
            duration_s=len(samples) / STORED_RATE_HZ,
            ref_text=(ref_text or "").strip() or None,
        )
        with self._changing:
            self._check_room(voice)
            try:
                self._write(self._audio_path(voice), stored)
                self._write(self._metadata_path(name), msgspec.json.encode(voice))
            except BaseException:
                # Metadata first: it may be in place already, where only the folder could not be synced.
                self._metadata_path(name).unlink(missing_ok=True)
                self._audio_path(voice).unlink(missing_ok=True)
                raise
            self._voices[name.lower()] = voice
        return voice

    def remove(self, name: str) -> None:
        """Raises `UnknownVoice`."""
        with self._changing:
            voice = self._known(name)
            self._metadata_path(voice.name).unlink(missing_ok=True)
            del self._voices[voice.name.lower()]
            self._sync_folder()  # from here on it is gone, whatever happens
            self._audio_path(voice).unlink(missing_ok=True)

    def reference(self, name: str) -> Reference:
        """The recording, for an engine.  Raises `UnknownVoice`, or `InvalidConfig` where it was damaged on disk."""
        voice = self._known(name)
        try:
            samples, rate_hz = soundfile.read(io.BytesIO(self._read(voice)), dtype="float32")
        except (OSError, ValueError, soundfile.SoundFileError) as error:
            if self.find(name) is not voice:
                raise _unknown(name) from None  # removed just now
            log.error("the uploaded voice %s cannot be read: %s", voice.name, error)
            raise InvalidConfig(f"the recording of {voice.name} is damaged; upload it again", param="voice") from None
        return Reference(voice.sha256, samples, rate_hz, voice.ref_text, x_vector_only=voice.ref_text is None)

    # -- Checks --------------------------------------------------------------------------------------------------------

    def _known(self, name: str) -> StoredVoice:
        voice = self.find(name)
        if voice is None:
            raise _unknown(name)
        return voice

    def _check_name(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise InvalidConfig("1 to 64 of the letters a-z and A-Z, digits, - and _, no sign first", param="name")
        if name.lower() in self._reserved:
            raise VoiceExists(f"{name} is one of the model's own voices", param="name")

    def _check_texts(self, consent: str, ref_text: str | None) -> None:
        if consent.strip().lower() in ("", "false", "no", "none", "null", "0"):
            raise InvalidConfig(
                "say who has agreed to the use of this voice; without it, none is kept", param="consent"
            )
        for field, text in (("consent", consent), ("ref_text", ref_text or "")):
            if len(text) > self.limits.max_text_chars:
                raise InvalidConfig(f"at most {self.limits.max_text_chars} characters, got {len(text)}", param=field)
            if any("\ud800" <= character <= "\udfff" for character in text):
                raise InvalidConfig("is not valid Unicode", param=field)

    def _decode(self, audio: bytes) -> Float32:
        limits = self.limits
        samples, rate_hz = decode_audio(audio, max_bytes=limits.max_bytes, max_s=limits.max_s)
        if len(samples) < limits.min_s * rate_hz:
            raise InvalidConfig(f"is shorter than {limits.min_s:g} s", param="ref_audio")
        if not samples.any():
            raise InvalidConfig("is nothing but silence", param="ref_audio")
        resampler = StreamingResampler(rate_hz, STORED_RATE_HZ)
        return np.concatenate([resampler.push(samples), resampler.flush()])

    def _check_room(self, voice: StoredVoice) -> None:
        if voice.name.lower() in self._voices or self._metadata_path(voice.name).exists():
            raise VoiceExists(f"there is a voice {voice.name} already; delete it first", param="name")
        if len(self._voices) >= self.limits.max_voices:
            raise VoiceStoreFull(f"there are {len(self._voices)} uploaded voices, and no more may be; delete one first")
        total_bytes = sum(each.size_bytes for each in self._voices.values())
        if total_bytes + voice.size_bytes > self.limits.max_total_bytes:
            raise VoiceStoreFull("the space for uploaded voices is used up; delete one first")

    # -- The folder ----------------------------------------------------------------------------------------------------

    def _metadata_path(self, name: str) -> Path:
        return self._folder / f"{name.lower()}.json"

    def _audio_path(self, voice: StoredVoice) -> Path:
        return self._folder / f"{voice.name.lower()}.{voice.sha256[:16]}.wav"

    def _write(self, path: Path, data: bytes) -> None:
        """All of it under its name, on the disk, or nothing."""
        handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        self._sync_folder()

    def _sync_folder(self) -> None:
        """A rename lives in the folder: without this a crash can undo it."""
        if os.name != "posix":
            return  # where a folder cannot be opened
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _read(self, voice: StoredVoice) -> bytes:
        """Raises `ValueError` where it is not what was written, or `OSError`."""
        path = self._audio_path(voice)
        if path.stat().st_size != voice.size_bytes:
            raise ValueError("its audio has another size than when it was stored")
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != voice.sha256:
            raise ValueError("its audio is not what was stored")
        return data

    def _load(self, path: Path) -> None:
        try:
            voice = msgspec.json.decode(path.read_bytes(), type=StoredVoice)
            if voice.version != 1 or self._metadata_path(voice.name) != path:
                raise ValueError(f"it is of version {voice.version} and for {voice.name}")
            if voice.name.lower() in self._reserved:
                raise ValueError("the model has a voice of that name")
            self._read(voice)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            # Kept where it is: an operator may still mend it, and we would lose what we do not understand.
            self.problems.append(f"{path.name}: {error}")
            log.warning("the uploaded voice in %s is passed over: %s", path.name, error)
        else:
            self._voices[voice.name.lower()] = voice

    def _clean(self) -> None:
        """Removes what a crash has left: files half written, and audio that no metadata came to name."""
        for path in self._folder.glob(f"{_TEMPORARY}*"):
            path.unlink(missing_ok=True)
        for path in self._folder.glob("*.wav"):
            key = path.name.partition(".")[0]
            voice = self._voices.get(key)
            named = self._metadata_path(key).exists() if voice is None else path == self._audio_path(voice)
            if not named and re.fullmatch(rf"{_NAME.pattern}\.[0-9a-f]{{16}}\.wav", path.name):
                path.unlink(missing_ok=True)


class References:
    """What `ref_audio` means: an uploaded voice, a recording in the message, or one behind a URL.

    An instance is a session's `fetch_reference`.  `fetch_url` is there where the operator allows URLs.
    """

    def __init__(
        self,
        store: VoiceStore | None,
        limits: VoiceLimits | None = None,
        fetch_url: Callable[[str], Awaitable[bytes]] | None = None,
    ) -> None:
        self._store = store
        self._limits = limits or VoiceLimits()
        self._fetch_url = fetch_url

    async def __call__(self, ref_audio: str) -> Reference:
        """Raises `InvalidConfig`, naming `ref_audio` or `voice`."""
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


def _unknown(name: str) -> UnknownVoice:
    return UnknownVoice(f"there is no uploaded voice {printable(name[:80])!r}", param="voice")


def _wav(samples: Float32) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, STORED_RATE_HZ, format="WAV", subtype="PCM_16")
    return out.getvalue()
