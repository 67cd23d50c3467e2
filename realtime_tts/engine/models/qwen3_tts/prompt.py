"""Prompts of the Talker: instruction, role, tags, voice and text, as embeddings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from realtime_tts.engine.models.qwen3.embeddings import Embeddings, Prompt
from realtime_tts.engine.models.qwen3_tts.config import ModelConfig, ModelType
from realtime_tts.engine.models.qwen3_tts.tokenizer import TextTokenizer
from realtime_tts.errors import InvalidConfig, NothingToSpeak, UnknownVoice


@dataclass(frozen=True, slots=True)
class ReferenceSpeech:
    """A recording that the voice continues: its transcript and its codes (n, 16)."""

    text: str
    codes: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ClonedVoice:
    """A voice of the Base model: its x-vector (talker hidden,), and the recording unless only the x-vector is used."""

    x_vector: npt.NDArray[np.float32]
    reference: ReferenceSpeech | None = None


@dataclass(frozen=True, slots=True)
class Speech:
    """The text, voice and layout of a prompt.

    `text_first` places all the text before the first frame, which is the publisher's default for CustomVoice and
    VoiceDesign; otherwise one token is fed in with each frame, and `text_complete` says whether more text follows.
    """

    text: str
    language: str | None = None
    """Such as english, as the model's config names it.  None: the model chooses."""
    speaker: str | None = None
    instruct: str | None = None
    voice: ClonedVoice | None = None
    text_first: bool = False
    text_complete: bool = True

    def __post_init__(self) -> None:
        if self.text_first and not self.text_complete:
            raise ValueError("text_first needs all of the text")
        if self.voice is not None and self.voice.reference is not None and not self.text_complete:
            # Text shorter than the recording is padded to its length, and the padding cannot be filled later.
            raise ValueError("a reference recording needs all of the text")


class PromptBuilder:
    """Builds prompts in the layout of the model's training (reference: qwen-tts 0.1.1)."""

    def __init__(self, config: ModelConfig, tokenizer: TextTokenizer, embeddings: Embeddings) -> None:
        self._config = config
        self._talker = config.talker_config
        self._tokenizer = tokenizer
        self._embeddings = embeddings
        ids = (config.tts_pad_token_id, config.tts_bos_token_id, config.tts_eos_token_id)
        codec_ids = (self._talker.codec_pad_id, self._talker.codec_bos_id)
        with torch.inference_mode():
            text, codec = embeddings.text(ids), embeddings.codec(codec_ids)
            # (1, hidden) each
            self._text_pad, self._text_bos, self._text_eos = text[:1], text[1:2], text[2:]
            self._codec_pad, self._codec_bos = codec[:1], codec[1:]
            self._role = embeddings.text(tokenizer.assistant)

    def build(self, speech: Speech) -> Prompt:
        """Raises NothingToSpeak, UnknownVoice, and InvalidConfig for what this model does not support."""
        self._check(speech)
        body = self._tokenizer.text(speech.text)
        if not body:
            raise NothingToSpeak("there is no text to speak")
        with torch.inference_mode():
            parts = [self._embeddings.text(self._instruction(speech)), self._role, self._tags(speech)]
            prefix_length = sum(len(part) for part in parts)
            if speech.voice is not None and speech.voice.reference is not None:
                spoken, trailing = self._after_reference(body, speech.voice.reference, speech.text_first)
                prefix_length += len(self._tokenizer.text(speech.voice.reference.text))
            elif speech.text_first:
                text = torch.cat([self._embeddings.text(body), self._text_eos])
                spoken, trailing = [text + self._codec_pad, self._text_pad + self._codec_bos], self._text_pad
            else:
                spoken = [self._embeddings.text(body[:1]) + self._codec_bos]
                trailing = self.more_text(body[1:], last=speech.text_complete)
            embeddings = torch.cat([*parts, *spoken])
            # A transcript longer than its recording fills the prompt, which is then the same for every text.  One
            # position must be left to compute.
            return Prompt(embeddings, trailing, speech.text_complete, min(prefix_length, len(embeddings) - 1))

    def more_text(self, ids: Sequence[int], *, last: bool) -> torch.Tensor:
        """Embeddings of text that is fed in with the frames; `last` appends the end of text."""
        with torch.inference_mode():
            text = self._embeddings.text(ids)
            return torch.cat([text, self._text_eos]) if last else text

    def _after_reference(
        self, body: tuple[int, ...], reference: ReferenceSpeech, text_first: bool
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """The transcript and this text as one text, added to the recording's codes; the surplus of text trails."""
        text = torch.cat([self._embeddings.text((*self._tokenizer.text(reference.text), *body)), self._text_eos])
        codes = torch.cat([self._codec_bos, self._embeddings.frames(reference.codes)])
        if text_first:
            return [text + self._codec_pad, codes + self._text_pad], self._text_pad
        overlap = text[: len(codes)]
        padding = self._text_pad.expand(len(codes) - len(overlap), -1)
        trailing = text[len(codes) :] if len(text) > len(codes) else self._text_pad
        return [torch.cat([overlap, padding]) + codes], trailing

    def _tags(self, speech: Speech) -> torch.Tensor:
        """Language and voice, each added to a text pad, the last to the start of text; the start of codes follows."""
        talker = self._talker
        language = self._language(speech)
        if language is None:
            tags = [talker.codec_nothink_id, talker.codec_think_bos_id, talker.codec_think_eos_id]
        else:
            language_id = talker.codec_language_id[language]
            tags = [talker.codec_think_id, talker.codec_think_bos_id, language_id, talker.codec_think_eos_id]
        if speech.speaker is not None:
            tags.append(talker.spk_id[speech.speaker.lower()])
        codes = [self._embeddings.codec(tags)]
        if speech.voice is not None:
            x_vector = torch.from_numpy(speech.voice.x_vector.astype(np.float32))
            codes.append(x_vector.to(self._codec_pad)[None])
        codec = torch.cat([*codes, self._codec_pad])
        return torch.cat([self._text_pad.expand(len(codec) - 1, -1), self._text_bos]) + codec

    def _language(self, speech: Speech) -> str | None:
        """The language of the tag: a speaker's dialect replaces Chinese, or an unspecified language."""
        language = None if speech.language is None else speech.language.lower()
        dialect = None if speech.speaker is None else self._talker.dialect_of(speech.speaker.lower())
        return dialect if dialect is not None and language in (None, "chinese") else language

    def _instruction(self, speech: Speech) -> tuple[int, ...]:
        if not self._config.supports_instructions or not (speech.instruct and speech.instruct.strip()):
            return ()
        return self._tokenizer.instruct(speech.instruct)

    def _check(self, speech: Speech) -> None:
        if speech.language is not None and speech.language.lower() not in self._talker.codec_language_id:
            raise InvalidConfig(f"language {speech.language!r} is not one of {', '.join(self._config.languages)}")
        kind = self._config.tts_model_type
        if (speech.speaker is not None) != (kind is ModelType.CUSTOM_VOICE):
            raise UnknownVoice(f"a {kind} model {'needs' if speech.speaker is None else 'has no'} named speakers")
        if speech.speaker is not None and speech.speaker.lower() not in self._talker.spk_id:
            raise UnknownVoice(f"there is no voice {speech.speaker!r}; there are {', '.join(self._config.speakers)}")
        if (speech.voice is not None) != (kind is ModelType.BASE):
            raise InvalidConfig(f"a {kind} model {'needs' if speech.voice is None else 'takes no'} reference voice")
        if speech.voice is not None:
            self._check_voice(speech.voice)

    def _check_voice(self, voice: ClonedVoice) -> None:
        if voice.x_vector.shape != (self._talker.hidden_size,) or not np.isfinite(voice.x_vector).all():
            raise InvalidConfig(f"a speaker embedding must have {self._talker.hidden_size} finite numbers")
        if voice.reference is None:
            return
        codes = voice.reference.codes
        if codes.ndim != 2 or codes.shape[1] != self._talker.num_code_groups or not len(codes):
            raise InvalidConfig(f"reference codes must be (n, {self._talker.num_code_groups}), not {codes.shape}")
        if codes.min() < 0 or codes.max() >= self._talker.code_predictor_config.vocab_size:
            raise InvalidConfig("reference codes are outside the codebook")
        if not voice.reference.text.strip():
            raise InvalidConfig("a reference recording needs its transcript")
