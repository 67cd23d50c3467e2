"""Recordings to voices: x-vector, codes, and the decoder's memory of them, each worked out once, and all in one go."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from torch import Tensor

from realtime_tts.audio.pcm import playable
from realtime_tts.audio.resample import StreamingResampler
from realtime_tts.engine.api import Reference, SynthesisRequest
from realtime_tts.engine.models.qwen3_tts.about import SAMPLE_RATE_HZ
from realtime_tts.engine.models.qwen3_tts.code2wav import Code2Wav
from realtime_tts.engine.models.qwen3_tts.codec_encoder import CodecEncoder
from realtime_tts.engine.models.qwen3_tts.layers import KVPrefix
from realtime_tts.engine.models.qwen3_tts.prompt import ClonedVoice, ReferenceSpeech
from realtime_tts.engine.models.qwen3_tts.speaker_encoder import SpeakerEncoder
from realtime_tts.engine.models.qwen3_tts.voice_cache import Prefix, Voice, VoiceCache
from realtime_tts.errors import InvalidConfig

Samples = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]

MAX_REFERENCE_S = 60.0
"""As long as an uploaded voice may be.  The publisher asks for 3 to 20 s."""
PASS_SAMPLES = int(MAX_REFERENCE_S * SAMPLE_RATE_HZ)
"""Of one pass through the encoders, padding included: no more memory than the longest recording alone (370 MB a
tensor)."""
HEARD_TOGETHER = 8
"""Recordings that a GPU's decoder hears at once: a slot of 5.2 MB each."""
PADDING = 1.5
"""So much longer than the shortest may the longest of a pass be."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadyVoice:
    """What the Talker's prompt takes, and where the decoder goes on from (None: from silence)."""

    cloned: ClonedVoice
    decoder_state: Tensor | None = None
    key: str | None = None
    """Under which it is kept."""
    prefix: Prefix | None = None

    def prefix_in(self, language: str | None) -> KVPrefix | None:
        """What the Talker has read before of a prompt by this voice in `language`, where that is known."""
        if self.prefix is None or self.cloned.reference is None:
            return None
        return self.prefix.kv if self.prefix.fits(language, self.cloned.reference.text) else None


class VoiceMaker:
    """Makes the voices that requests bring.  Belongs to the Talker's lane, as does the decoder that it is given.

    Neither what a voice is made of nor what is kept of it depends on the transcript, so one recording with a corrected
    text is not listened to again.
    """

    def __init__(self, speaker: SpeakerEncoder, encoder: CodecEncoder, decoder: Code2Wav, limit_bytes: int) -> None:
        """`decoder` hears as many recordings together as it has slots."""
        self.cache = VoiceCache(limit_bytes)
        self._speaker = speaker
        self._encoder = encoder
        self.decoder = decoder

    def voice(self, request: SynthesisRequest) -> ReadyVoice:
        """An embedding goes before a recording.  Raises InvalidConfig for what cannot be used."""
        (found,) = self.voices([request])
        if isinstance(found, InvalidConfig):
            raise found
        return found

    def voices(self, requests: Sequence[SynthesisRequest]) -> list[ReadyVoice | InvalidConfig]:
        """The voice of each request, or why it has none.  All new recordings among them are listened to together."""
        known = self._known([reference for request in requests if (reference := _usable(request)) is not None])
        found: list[ReadyVoice | InvalidConfig] = []
        for request in requests:
            try:
                found.append(_ready(request, known))
            except InvalidConfig as error:
                found.append(error)
        return found

    def keep_prefix(self, voice: ReadyVoice, language: str | None, copy: Callable[[], KVPrefix]) -> None:
        """Keeps what the Talker has read of a prompt up to the text, for the next in this voice and `language`.

        Of a recording that is gone on from, the prefix holds the transcript (about a third of the prompt).  Any other
        is ten positions, and not worth its place.
        """
        if voice.key is None or voice.cloned.reference is None or (kept := self.cache.get(voice.key)) is None:
            return
        transcript = voice.cloned.reference.text
        if kept.prefix is None or not kept.prefix.fits(language, transcript):
            self.cache.extend(voice.key, Prefix(language, transcript, copy()))

    def _known(self, references: Sequence[Reference]) -> dict[str, Voice | InvalidConfig]:
        """By key, from the cache or worked out now: a recording that comes twice is listened to once."""
        known: dict[str, Voice | InvalidConfig] = {}
        new: dict[str, _Recording] = {}
        for reference in references:
            key = _key(reference)
            if key in known or key in new:
                continue
            if (voice := self.cache.get(key)) is not None:
                known[key] = voice
                continue
            try:
                new[key] = _Recording(key, self._at_model_rate(reference), reference.x_vector_only)
            except InvalidConfig as error:
                known[key] = error
        for group in _of_like_length(list(new.values())):
            for recording, voice in zip(group, self._listen(group), strict=True):
                self.cache.put(recording.key, voice)
                known[recording.key] = voice
        return known

    def _at_model_rate(self, reference: Reference) -> Samples:
        duration_s = len(reference.samples) / reference.sample_rate_hz
        if duration_s > MAX_REFERENCE_S:
            raise InvalidConfig(f"ref_audio: at most {MAX_REFERENCE_S:g} s, got {duration_s:.1f}")
        resampler = StreamingResampler(reference.sample_rate_hz, SAMPLE_RATE_HZ)
        samples = np.concatenate((resampler.push(playable(reference.samples)), resampler.flush()))
        if len(samples) < self._speaker.min_samples:
            raise InvalidConfig(f"ref_audio: {duration_s:.2f} s are too short for a voice")
        return samples

    def _listen(self, group: "Sequence[_Recording]") -> list[Voice]:
        """One pass through each encoder.  Codes are those of each alone; x-vectors but for the rounding of sums."""
        x_vectors = self._speaker.encode_all([recording.samples for recording in group]).float().cpu()
        whole = [recording for recording in group if not recording.x_vector_only]
        codes = self._encoder.encode_all([recording.samples for recording in whole]) if whole else []
        heard = dict(zip((each.key for each in whole), zip(codes, self._heard(codes), strict=True), strict=True))
        voices = []
        for recording, x_vector in zip(group, x_vectors, strict=True):
            own_codes, state = heard.get(recording.key, (None, None))
            voices.append(Voice(own_codes, x_vector.clone(), state))  # a view would keep the others' alive
        return voices

    def _heard(self, recordings: Sequence[Codes]) -> list[Tensor]:
        """The decoder's state after each recording, from which speech goes on without a seam."""
        together = self.decoder.arena.slots
        parts = [recordings[start : start + together] for start in range(0, len(recordings), together)]
        return [state for part in parts for state in self._heard_together(part)]

    def _heard_together(self, recordings: Sequence[Codes]) -> list[Tensor]:
        """In step, without padding: all to the end of the shortest, the others to that of the next, and so on."""
        arena = self.decoder.arena
        slots = [arena.acquire() for _ in recordings]
        try:
            for start, end in pairwise([0, *sorted({len(codes) for codes in recordings})]):
                self.decoder.decode(slots, [codes[start:end] for codes in recordings])
            return [arena.snapshot(slot) for slot in slots]
        finally:
            for slot in slots:
                arena.release(slot)


@dataclass(frozen=True, slots=True, eq=False)
class _Recording:
    """One that is not known yet, at the model's rate."""

    key: str
    samples: Samples
    x_vector_only: bool


def _usable(request: SynthesisRequest) -> Reference | None:
    """The recording that a request is to speak by, where it has what is needed for that."""
    reference = request.reference
    if request.speaker_embedding is not None or reference is None or _lacks_text(reference):
        return None
    return reference


def _lacks_text(reference: Reference) -> bool:
    return not reference.x_vector_only and not (reference.text and reference.text.strip())


def _key(reference: Reference) -> str:
    return f"{'x_vector' if reference.x_vector_only else 'whole'} {reference.key}"


def _ready(request: SynthesisRequest, known: dict[str, Voice | InvalidConfig]) -> ReadyVoice:
    reference = request.reference
    if request.speaker_embedding is not None:
        with np.errstate(over="ignore"):  # what is beyond a float32 is refused with the other infinities
            return ReadyVoice(ClonedVoice(np.array(request.speaker_embedding, np.float32)))
    if reference is None:
        raise InvalidConfig("this model speaks in the voice of a recording: set ref_audio or speaker_embedding")
    if _lacks_text(reference):
        raise InvalidConfig("ref_text: say what is said in ref_audio, or set x_vector_only_mode")
    voice = known[_key(reference)]
    if isinstance(voice, InvalidConfig):
        raise voice
    speech = None
    if voice.codes is not None and reference.text is not None:
        speech = ReferenceSpeech(reference.text, voice.codes)
    return ReadyVoice(ClonedVoice(voice.x_vector.numpy(), speech), voice.decoder_state, _key(reference), voice.prefix)


def _of_like_length(recordings: "Sequence[_Recording]") -> "Iterator[list[_Recording]]":
    """Passes in which no more is padded than is worth it, and that fit into memory."""
    group: list[_Recording] = []
    for recording in sorted(recordings, key=lambda each: len(each.samples)):
        length = len(recording.samples)
        fits = (len(group) + 1) * length <= PASS_SAMPLES
        if group and not (fits and length <= PADDING * len(group[0].samples)):
            yield group
            group = []
        group.append(recording)
    if group:
        yield group
