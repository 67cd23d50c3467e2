"""A recording to a voice: its x-vector, its codes, and the decoder's memory of it, each worked out once."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from realtime_tts.audio.pcm import playable
from realtime_tts.audio.resample import StreamingResampler
from realtime_tts.engine.api import Reference, SynthesisRequest
from realtime_tts.engine.models.qwen3_tts.about import SAMPLE_RATE_HZ
from realtime_tts.engine.models.qwen3_tts.code2wav import Code2Wav
from realtime_tts.engine.models.qwen3_tts.codec_encoder import CodecEncoder
from realtime_tts.engine.models.qwen3_tts.prompt import ClonedVoice, ReferenceSpeech
from realtime_tts.engine.models.qwen3_tts.speaker_encoder import SpeakerEncoder
from realtime_tts.engine.models.qwen3_tts.voice_cache import Voice, VoiceCache
from realtime_tts.errors import InvalidConfig

Samples = npt.NDArray[np.float32]

MAX_REFERENCE_S = 60.0
"""As long as an uploaded voice may be.  The publisher asks for 3 to 20 s."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadyVoice:
    """What the Talker's prompt takes, and where the decoder goes on from (None: from silence)."""

    cloned: ClonedVoice
    decoder_state: Tensor | None = None


class VoiceMaker:
    """Makes the voices that requests bring.  Belongs to the Talker's lane, as does the decoder that it is given.

    Neither what a voice is made of nor what is kept of it depends on the transcript, so one recording with a corrected
    text is not listened to again.
    """

    def __init__(self, speaker: SpeakerEncoder, encoder: CodecEncoder, decoder: Code2Wav, limit_bytes: int) -> None:
        self.cache = VoiceCache(limit_bytes)
        self._speaker = speaker
        self._encoder = encoder
        self.decoder = decoder

    def voice(self, request: SynthesisRequest) -> ReadyVoice:
        """An embedding goes before a recording.  Raises InvalidConfig for what cannot be used."""
        if request.speaker_embedding is not None:
            with np.errstate(over="ignore"):  # what is beyond a float32 is refused with the other infinities
                return ReadyVoice(ClonedVoice(np.array(request.speaker_embedding, np.float32)))
        if request.reference is None:
            raise InvalidConfig("this model speaks in the voice of a recording: set ref_audio or speaker_embedding")
        return self._cloned(request.reference)

    def _cloned(self, reference: Reference) -> ReadyVoice:
        if not reference.x_vector_only and not (reference.text and reference.text.strip()):
            raise InvalidConfig("ref_text: say what is said in ref_audio, or set x_vector_only_mode")
        key = f"{'x_vector' if reference.x_vector_only else 'whole'} {reference.key}"
        made = self.cache.get(key)
        if made is None:
            made = self._make(reference)
            self.cache.put(key, made)
        assert made.x_vector is not None, "every voice has one"
        speech = None
        if made.codes is not None and reference.text is not None:
            speech = ReferenceSpeech(reference.text, made.codes)
        return ReadyVoice(ClonedVoice(made.x_vector.numpy(), speech), made.decoder_state)

    def _make(self, reference: Reference) -> Voice:
        samples = self._at_model_rate(reference)
        x_vector = self._speaker.encode(samples).float().cpu()
        if reference.x_vector_only:
            return Voice(None, x_vector, None)
        codes = self._encoder.encode(samples)
        return Voice(codes, x_vector, self._heard(codes))

    def _at_model_rate(self, reference: Reference) -> Samples:
        duration_s = len(reference.samples) / reference.sample_rate_hz
        if duration_s > MAX_REFERENCE_S:
            raise InvalidConfig(f"ref_audio: at most {MAX_REFERENCE_S:g} s, got {duration_s:.1f}")
        resampler = StreamingResampler(reference.sample_rate_hz, SAMPLE_RATE_HZ)
        samples = np.concatenate((resampler.push(playable(reference.samples)), resampler.flush()))
        if len(samples) < self._speaker.min_samples:
            raise InvalidConfig(f"ref_audio: {duration_s:.2f} s are too short for a voice")
        return samples

    def _heard(self, codes: npt.NDArray[np.int64]) -> Tensor:
        """The decoder's state after the recording, from which speech goes on without a seam."""
        arena = self.decoder.arena
        slot = arena.acquire()
        try:
            self.decoder.decode([slot], [codes])
            return arena.snapshot(slot)
        finally:
            arena.release(slot)
