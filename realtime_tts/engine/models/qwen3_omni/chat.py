"""Chat format: a conversation as token ids of the Thinker, and the part of it that the Talker reads."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from realtime_tts.engine.api import AudioPart, ImagePart, Part, Role, SpokenContext, TextPart, Turn
from realtime_tts.engine.models.qwen3.byte_pairs import BytePairs, StreamDecoder
from realtime_tts.engine.models.qwen3_omni.audio_tower import audio_tokens
from realtime_tts.engine.models.qwen3_omni.config import INPUT_RATE_HZ, OmniConfig, PreprocessorConfig
from realtime_tts.engine.models.qwen3_omni.image import Grid, fit
from realtime_tts.engine.models.qwen3_omni.mel import MIN_SAMPLES, mel_frames
from realtime_tts.engine.models.qwen3_omni.positions import Piece, ids_of, positions_of
from realtime_tts.engine.thinking.thinker import ChatPrompt, ThinkerPrompt
from realtime_tts.errors import InvalidConfig, TextTooLong

AUDIO, IMAGE = "audio", "image"


class OmniChat:
    """`<|im_start|>role`, a line break, the parts and `<|im_end|>` for each turn, then the start of the answer.

    Text between two special tokens is tokenised as one, as in the reference.  The name of a special token within it is
    plain text: a turn cannot end itself.
    """

    def __init__(
        self,
        config: OmniConfig,
        preprocessor: PreprocessorConfig,
        byte_pairs: BytePairs,
        *,
        max_positions: int,
        input_modalities: frozenset[str] = frozenset({AUDIO, IMAGE}),
    ) -> None:
        """`max_positions` are those of a prompt."""
        self._config = config
        self._thinker = config.thinker_config
        self._preprocessor = preprocessor
        self._byte_pairs = byte_pairs
        self._max_positions = max_positions
        self._input_modalities = input_modalities

    def prompt(self, turns: Sequence[Turn], *, spoken: bool) -> ChatPrompt:
        """Raises TextTooLong, and InvalidConfig for turns that the model does not accept."""
        pieces: list[Piece] = []
        heard: list[Piece] = []
        for turn in turns:
            own = self._turn(turn)
            pieces += own
            if turn.role is Role.USER:
                heard += own
        pieces.append(Piece((self._config.im_start_token_id, *self._byte_pairs.encode("assistant\n"))))
        ids = ids_of(pieces)
        if len(ids) > self._max_positions:
            raise TextTooLong(
                f"the conversation has {len(ids)} tokens; at most {self._max_positions} fit before the answer"
            )
        parts = [part for turn in turns for part in turn.parts]
        audio = tuple(part for part in parts if isinstance(part, AudioPart))
        images = tuple(part for part in parts if isinstance(part, ImagePart))
        prompt = ThinkerPrompt(ids, audio, images, wants_rows=spoken and bool(audio or images))
        return ChatPrompt(prompt, self._context(heard, [part.key for part in parts if not isinstance(part, TextPart)]))

    def decoder(self) -> StreamDecoder:
        return self._byte_pairs.decoder()

    def _context(self, heard: Sequence[Piece], keys: Sequence[str]) -> SpokenContext:
        ids = np.array(ids_of(heard), np.int32)
        digest = hashlib.sha256(ids.tobytes())
        for key in keys:
            digest.update(f"\n{key}".encode())
        return SpokenContext(ids, digest.hexdigest(), positions=positions_of(heard))

    def _turn(self, turn: Turn) -> list[Piece]:
        writer = _TurnWriter(self._byte_pairs)
        writer.special(self._config.im_start_token_id)
        writer.text.append(f"{turn.role}\n")
        for part in turn.parts:
            self._write(writer, turn.role, part)
        writer.special(self._config.im_end_token_id)
        writer.text.append("\n")
        writer.end_text()
        return writer.pieces

    def _write(self, writer: "_TurnWriter", role: Role, part: Part) -> None:
        thinker = self._thinker
        if isinstance(part, TextPart):
            writer.text.append(part.text)
            return
        # The Talker reads the user's turns alone, so it would not know of audio in another.
        if role is not Role.USER:
            raise InvalidConfig(f"a turn of the {role} is text: audio and images belong to turns of the user")
        if isinstance(part, AudioPart):
            tokens = self._check_audio(part)
            writer.special(thinker.audio_start_token_id)
            writer.pieces.append(Piece((thinker.audio_token_id,) * tokens))
            writer.special(thinker.audio_end_token_id)
        else:
            grid = self._check_image(part)
            writer.special(thinker.vision_start_token_id)
            writer.pieces.append(Piece((thinker.image_token_id,) * grid.tokens, grid))
            writer.special(thinker.vision_end_token_id)

    def _check_audio(self, part: AudioPart) -> int:
        """The number of its embeddings."""
        self._check_modality(AUDIO)
        samples, longest_s = part.samples, self._preprocessor.chunk_length
        if len(samples) < MIN_SAMPLES or len(samples) > longest_s * INPUT_RATE_HZ:
            raise InvalidConfig(
                f"audio must have {MIN_SAMPLES / INPUT_RATE_HZ:g} to {longest_s} s,"
                f" got {len(samples) / INPUT_RATE_HZ:.3f} s"
            )
        if not np.isfinite(samples).all():
            raise InvalidConfig("audio has samples that are not finite")
        return audio_tokens(mel_frames(len(samples)), self._thinker.audio_config.chunk_frames)

    def _check_image(self, part: ImagePart) -> Grid:
        self._check_modality(IMAGE)
        if part.pixels.ndim != 3 or part.pixels.shape[2] != 3 or part.pixels.dtype != np.uint8:
            raise InvalidConfig(f"an image must have three bytes per pixel, got {part.pixels.shape}")
        try:
            return fit(part.pixels.shape[0], part.pixels.shape[1], self._preprocessor)
        except ValueError as error:
            raise InvalidConfig(str(error)) from None

    def _check_modality(self, modality: str) -> None:
        if modality not in self._input_modalities:
            accepted = ", ".join(sorted({"text"} | self._input_modalities))
            raise InvalidConfig(f"this model does not accept {modality}; it accepts {accepted}")


@dataclass(slots=True)
class _TurnWriter:
    """The pieces of a turn; text is collected up to the next special token."""

    byte_pairs: BytePairs
    pieces: list[Piece] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def special(self, token: int) -> None:
        self.end_text()
        self.pieces.append(Piece((token,)))

    def end_text(self) -> None:
        if ids := self.byte_pairs.encode("".join(self.text)):
            self.pieces.append(Piece(ids))
        self.text.clear()
