"""Store of uploaded voices: recordings with a name and a consent, in a folder that survives crashes."""

import errno
import hashlib
import io
import logging
import os
import re
import tempfile
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import soundfile
from msgspec import Meta, Struct

from realtime_tts.audio.decode import decode_audio
from realtime_tts.audio.pcm import Float32
from realtime_tts.audio.resample import StreamingResampler
from realtime_tts.engine.api import Reference
from realtime_tts.errors import InternalError, InvalidConfig, UnknownVoice, VoiceExists, VoiceStoreFull
from realtime_tts.text.unicode import printable

log = logging.getLogger(__name__)

STORED_RATE_HZ = 24_000

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TEMPORARY = ".new-"


@dataclass(frozen=True, slots=True)
class VoiceLimits:
    max_bytes: int = 10 * 1024 * 1024
    """Limit of one uploaded file.  It is OpenAI's."""
    min_s: float = 1.0
    max_s: float = 60.0
    max_voices: int = 1000
    max_total_bytes: int = 1024**3
    """Limit of all stored recordings, at 48 kB per second."""
    max_text_chars: int = 2000
    """Limit of `consent`, and of `ref_text`."""


class StoredVoice(Struct, frozen=True, kw_only=True):
    """Metadata of one uploaded voice, as JSON on disk.  A name on disk must be one that an upload may have."""

    version: int
    name: Annotated[str, Meta(pattern=rf"^{_NAME.pattern}\Z")]
    consent: str
    """The uploader's statement that the speaker agrees."""
    created_at: float
    """Unix time in seconds."""
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    """Hash of the stored audio file."""
    size_bytes: int
    duration_s: float
    ref_text: str | None = None
    """Transcript of the recording."""


class VoiceStore:
    """The voices in one folder, which belongs to one process.  All methods block, and are thread-safe.

    A voice is two files: the audio, named after the voice and its content, and the metadata, which refers to the audio.
    The rename of the metadata creates a voice, its removal deletes the voice.  Other files that a crash leaves behind
    belong to no voice, and are removed at the next start.
    """

    def __init__(self, folder: Path, limits: VoiceLimits | None = None, *, reserved: Collection[str] = ()) -> None:
        """`reserved` are names that no upload may have, such as those of the models' voices.  Raises `OSError`."""
        self.limits = limits or VoiceLimits()
        self.skipped: list[str] = []
        """The metadata files that were skipped at the start, each with the reason."""
        self._folder = folder
        self._reserved = frozenset(name.lower() for name in reserved)
        self._write_lock = threading.Lock()
        self._voices: dict[str, StoredVoice] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in sorted(folder.glob("*.json")):
            self._load(path)
        self._clean()

    def voices(self) -> tuple[StoredVoice, ...]:
        """Sorted by name."""
        return tuple(voice for _key, voice in sorted(self._voices.copy().items()))

    def find(self, name: str) -> StoredVoice | None:
        return self._voices.get(name.lower())

    def add(
        self, name: str, audio: bytes, *, consent: str, created_at: float, ref_text: str | None = None
    ) -> StoredVoice:
        """Stores a new voice.  It is on disk when this returns.

        Raises `InvalidConfig`, `VoiceExists`, `VoiceStoreFull`, also if the disk is full, and `InternalError` if it
        fails.
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
        with self._write_lock:
            self._check_room(voice)
            try:
                self._write(self._audio_path(voice), stored)
                self._write(self._metadata_path(name), msgspec.json.encode(voice))
            except OSError as error:
                self._undo(voice)
                raise self._not_stored(error) from error
            except BaseException:
                self._undo(voice)
                raise
            self._voices[name.lower()] = voice
        return voice

    def _undo(self, voice: StoredVoice) -> None:
        # Metadata first: it may be in place already, if only the sync of the folder failed.
        self._metadata_path(voice.name).unlink(missing_ok=True)
        self._audio_path(voice).unlink(missing_ok=True)

    def _not_stored(self, error: OSError) -> VoiceStoreFull | InternalError:
        """The client's error; the operator's is one line of the log."""
        log.error("no voice can be stored in %s: %s", self._folder, error.strerror)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return VoiceStoreFull("the disk of uploaded voices is full")
        return InternalError("the voice could not be stored")

    def remove(self, name: str) -> None:
        """Raises `UnknownVoice`."""
        with self._write_lock:
            voice = self._known(name)
            self._metadata_path(voice.name).unlink(missing_ok=True)
            del self._voices[voice.name.lower()]
            self._sync_folder()  # a crash after this does not bring the voice back
            self._audio_path(voice).unlink(missing_ok=True)

    def reference(self, name: str) -> Reference:
        """The recording, for an engine.  Raises `UnknownVoice`, and `InvalidConfig` if it was damaged on disk."""
        voice = self._known(name)
        try:
            samples, rate_hz = soundfile.read(io.BytesIO(self._read(voice)), dtype="float32")
        except (OSError, ValueError, soundfile.SoundFileError) as error:
            if self.find(name) is not voice:
                raise _unknown(name) from None  # it was removed meanwhile
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
            raise InvalidConfig(
                "must be 1 to 64 letters a-z or A-Z, digits, - and _, and begin with a letter or a digit", param="name"
            )
        if name.lower() in self._reserved:
            raise VoiceExists(f"{name} is one of the model's own voices", param="name")

    def _check_texts(self, consent: str, ref_text: str | None) -> None:
        if consent.strip().lower() in ("", "false", "no", "none", "null", "0"):
            message = "must state who has agreed to the use of this voice; without consent no voice is stored"
            raise InvalidConfig(message, param="consent")
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
            raise InvalidConfig("contains only silence", param="ref_audio")
        resampler = StreamingResampler(rate_hz, STORED_RATE_HZ)
        return np.concatenate([resampler.push(samples), resampler.flush()])

    def _check_room(self, voice: StoredVoice) -> None:
        if voice.name.lower() in self._voices or self._metadata_path(voice.name).exists():
            raise VoiceExists(f"there is a voice {voice.name} already; delete it first", param="name")
        if len(self._voices) >= self.limits.max_voices:
            raise VoiceStoreFull(f"there are {len(self._voices)} uploaded voices, which is the limit; delete one first")
        total_bytes = sum(each.size_bytes for each in self._voices.values())
        if total_bytes + voice.size_bytes > self.limits.max_total_bytes:
            raise VoiceStoreFull("the space for uploaded voices is used up; delete one first")

    # -- The folder ----------------------------------------------------------------------------------------------------

    def _metadata_path(self, name: str) -> Path:
        return self._folder / f"{name.lower()}.json"

    def _audio_path(self, voice: StoredVoice) -> Path:
        return self._folder / f"{voice.name.lower()}.{voice.sha256[:16]}.wav"

    def _write(self, path: Path, data: bytes) -> None:
        """Writes the whole file, or nothing.  It is on disk when this returns."""
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
        """Makes a rename or a removal permanent: without this a crash can undo it."""
        if os.name != "posix":
            return  # a folder cannot be opened there
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _read(self, voice: StoredVoice) -> bytes:
        """Raises `ValueError` if the file is not the one that was written, and `OSError`."""
        path = self._audio_path(voice)
        if path.stat().st_size != voice.size_bytes:
            raise ValueError("its audio has another size than when it was stored")
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != voice.sha256:
            raise ValueError("its audio differs from the stored one")
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
            # Not deleted: an operator may repair it, and a newer version may have written it.
            self.skipped.append(f"{path.name}: {error}")
        else:
            self._voices[voice.name.lower()] = voice

    def _clean(self) -> None:
        """Removes what a crash left behind: incomplete files, and audio without metadata."""
        for path in self._folder.glob(f"{_TEMPORARY}*"):
            path.unlink(missing_ok=True)
        for path in self._folder.glob("*.wav"):
            key = path.name.partition(".")[0]
            voice = self._voices.get(key)
            in_use = self._metadata_path(key).exists() if voice is None else path == self._audio_path(voice)
            if not in_use and re.fullmatch(rf"{_NAME.pattern}\.[0-9a-f]{{16}}\.wav", path.name):
                path.unlink(missing_ok=True)


def _unknown(name: str) -> UnknownVoice:
    return UnknownVoice(f"there is no uploaded voice {printable(name[:80])!r}", param="voice")


def _wav(samples: Float32) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, STORED_RATE_HZ, format="WAV", subtype="PCM_16")
    return out.getvalue()
