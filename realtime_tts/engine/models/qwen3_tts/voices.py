"""Cloned voices from reference recordings: x-vector, codes and decoder state, each computed once and in batches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from torch import Tensor

from realtime_tts.audio.pcm import playable
from realtime_tts.audio.resample import StreamingResampler
from realtime_tts.engine.api import Reference, SynthesisRequest
from realtime_tts.engine.models.qwen3.codec.decoder import Code2Wav
from realtime_tts.engine.models.qwen3.layers import KVPrefix
from realtime_tts.engine.models.qwen3_tts.codec_encoder import CodecEncoder
from realtime_tts.engine.models.qwen3_tts.model_info import SAMPLE_RATE_HZ
from realtime_tts.engine.models.qwen3_tts.prompt import ClonedVoice, ReferenceSpeech
from realtime_tts.engine.models.qwen3_tts.speaker_encoder import SpeakerEncoder
from realtime_tts.engine.models.qwen3_tts.voice_cache import Prefix, Voice, VoiceCache
from realtime_tts.errors import InvalidConfig

Samples = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]

MAX_REFERENCE_S = 60.0
"""Equal to the limit of an uploaded voice.  The publisher recommends 3 to 20 s."""
MAX_BATCH_SAMPLES = int(MAX_REFERENCE_S * SAMPLE_RATE_HZ)
"""Samples of one pass through the encoders, including padding: no more memory than the longest recording alone (370 MB
a tensor)."""
GPU_DECODER_SLOTS = 8
"""Recordings that a GPU's decoder decodes together: a slot of 5.2 MB each."""
MAX_LENGTH_RATIO = 1.5
"""The longest recording of a pass by the shortest, which bounds the padding."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadyVoice:
    """A voice for the Talker's prompt, and the decoder state that it starts from (None: zero, which is silence)."""

    cloned: ClonedVoice
    decoder_state: Tensor | None = None
    key: str | None = None
    """Its key in the cache."""
    prefix: Prefix | None = None

    def prefix_in(self, language: str | None) -> KVPrefix | None:
        """The cached prompt prefix of this voice in `language`, if there is one."""
        if self.prefix is None or self.cloned.reference is None:
            return None
        return self.prefix.kv if self.prefix.matches(language, self.cloned.reference.text) else None


class VoiceBuilder:
    """Builds the voices of requests.  Belongs to the Talker's lane, as does its decoder.

    The cached values do not depend on the transcript, so a recording with a corrected transcript is not encoded again.
    """

    def __init__(self, speaker: SpeakerEncoder, encoder: CodecEncoder, decoder: Code2Wav, limit_bytes: int) -> None:
        """`decoder` decodes as many recordings together as it has slots."""
        self.cache = VoiceCache(limit_bytes)
        self.decoder = decoder
        self._speaker = speaker
        self._encoder = encoder

    def voices(self, requests: Sequence[SynthesisRequest]) -> list[ReadyVoice | InvalidConfig]:
        """The voice of each request, or its error.  All new recordings among them are encoded together."""
        by_key = self._by_key([reference for request in requests if (reference := _usable(request)) is not None])
        voices: list[ReadyVoice | InvalidConfig] = []
        for request in requests:
            try:
                voices.append(_ready(request, by_key))
            except InvalidConfig as error:
                voices.append(error)
        return voices

    def cache_prefix(self, voice: ReadyVoice, language: str | None, copy: Callable[[], KVPrefix]) -> None:
        """Caches the Talker's keys and values of a prompt before its text, for later requests in the same language.

        With a reference recording the prefix contains the transcript, about a third of the prompt.  Any other prefix is
        ten positions, and not worth its memory.
        """
        if voice.key is None or voice.cloned.reference is None or (cached := self.cache.get(voice.key)) is None:
            return
        transcript = voice.cloned.reference.text
        if cached.prefix is None or not cached.prefix.matches(language, transcript):
            self.cache.extend(voice.key, Prefix(language, transcript, copy()))

    def _by_key(self, references: Sequence[Reference]) -> dict[str, Voice | InvalidConfig]:
        """Cached and new voices; a recording that occurs twice is encoded once."""
        voices: dict[str, Voice | InvalidConfig] = {}
        new: dict[str, _Recording] = {}
        for reference in references:
            key = _key(reference)
            if key in voices or key in new:
                continue
            if (voice := self.cache.get(key)) is not None:
                voices[key] = voice
                continue
            try:
                new[key] = _Recording(key, self._at_model_rate(reference), reference.x_vector_only)
            except InvalidConfig as error:
                voices[key] = error
        for batch in _batches(list(new.values())):
            for recording, voice in zip(batch, self._encode(batch), strict=True):
                self.cache.put(recording.key, voice)
                voices[recording.key] = voice
        return voices

    def _at_model_rate(self, reference: Reference) -> Samples:
        duration_s = len(reference.samples) / reference.sample_rate_hz
        if duration_s > MAX_REFERENCE_S:
            raise InvalidConfig(f"at most {MAX_REFERENCE_S:g} s, got {duration_s:.1f}", param="ref_audio")
        resampler = StreamingResampler(reference.sample_rate_hz, SAMPLE_RATE_HZ)
        samples = np.concatenate((resampler.push(playable(reference.samples)), resampler.flush()))
        if len(samples) < self._speaker.min_samples:
            raise InvalidConfig(f"{duration_s:.2f} s are too short for a voice", param="ref_audio")
        return samples

    def _encode(self, batch: "Sequence[_Recording]") -> list[Voice]:
        """One pass through each encoder.  Codes equal those of each recording alone, x-vectors up to rounding."""
        x_vectors = self._speaker.encode([recording.samples for recording in batch]).float().cpu()
        with_codes = [recording for recording in batch if not recording.x_vector_only]
        codes = self._encoder.encode([recording.samples for recording in with_codes]) if with_codes else []
        states = self._decoder_states(codes)
        encoded = {each.key: (own, state) for each, own, state in zip(with_codes, codes, states, strict=True)}
        voices = []
        for recording, x_vector in zip(batch, x_vectors, strict=True):
            own_codes, state = encoded.get(recording.key, (None, None))
            voices.append(Voice(own_codes, x_vector.clone(), state))  # a view would keep the others' memory
        return voices

    def _decoder_states(self, recordings: Sequence[Codes]) -> list[Tensor]:
        """The decoder's state after each recording, from which speech continues without a seam."""
        size = self.decoder.arena.slots
        parts = [recordings[first : first + size] for first in range(0, len(recordings), size)]
        return [state for part in parts for state in self._decode_together(part)]

    def _decode_together(self, recordings: Sequence[Codes]) -> list[Tensor]:
        """Decodes without padding: all up to the end of the shortest, the others up to that of the next, and so on."""
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
    """A recording that is not cached, at the model's sample rate."""

    key: str
    samples: Samples
    x_vector_only: bool


def _usable(request: SynthesisRequest) -> Reference | None:
    """The recording of a request, unless it is not used or lacks its transcript."""
    reference = request.reference
    if request.speaker_embedding is not None or reference is None or _lacks_transcript(reference):
        return None
    return reference


def _lacks_transcript(reference: Reference) -> bool:
    return not reference.x_vector_only and not (reference.text and reference.text.strip())


def _key(reference: Reference) -> str:
    return f"{'x_vector' if reference.x_vector_only else 'whole'} {reference.key}"


def _ready(request: SynthesisRequest, by_key: dict[str, Voice | InvalidConfig]) -> ReadyVoice:
    """An embedding has priority over a recording.  Raises InvalidConfig."""
    reference = request.reference
    if request.speaker_embedding is not None:
        with np.errstate(over="ignore"):  # the prompt refuses infinite values
            return ReadyVoice(ClonedVoice(np.array(request.speaker_embedding, np.float32)))
    if reference is None:
        raise InvalidConfig("this model clones voices: set ref_audio or speaker_embedding")
    if _lacks_transcript(reference):
        raise InvalidConfig("ref_text: set the transcript of ref_audio, or set x_vector_only_mode")
    voice = by_key[_key(reference)]
    if isinstance(voice, InvalidConfig):
        raise voice
    speech = None
    if voice.codes is not None and reference.text is not None:
        speech = ReferenceSpeech(reference.text, voice.codes)
    return ReadyVoice(ClonedVoice(voice.x_vector.numpy(), speech), voice.decoder_state, _key(reference), voice.prefix)


def _batches(recordings: "Sequence[_Recording]") -> "Iterator[list[_Recording]]":
    """Groups recordings of similar length, so that a pass pads little and fits into memory."""
    batch: list[_Recording] = []
    for recording in sorted(recordings, key=lambda each: len(each.samples)):
        length = len(recording.samples)
        fits = (len(batch) + 1) * length <= MAX_BATCH_SAMPLES
        if batch and not (fits and length <= MAX_LENGTH_RATIO * len(batch[0].samples)):
            yield batch
            batch = []
        batch.append(recording)
    if batch:
        yield batch
