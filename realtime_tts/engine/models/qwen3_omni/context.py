"""Inputs of the Talker: what it reads of a conversation, and the start of its answer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from realtime_tts.engine.api import Rows, SpokenContext
from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.embeddings import Embeddings, Projection, load_projection
from realtime_tts.engine.models.qwen3_omni.config import OmniConfig, SpeechConfig
from realtime_tts.errors import UnknownVoice

ANSWER_POSITIONS = 9
"""Positions of the answer before its first frame: role, tags, voice, and the first token."""


@dataclass(frozen=True, slots=True)
class TalkerInputs:
    """Maps token ids, hidden states of the Thinker and voices to embeddings of the Talker."""

    config: OmniConfig
    speech: SpeechConfig
    embeddings: Embeddings
    hidden_projection: Projection
    newline: int
    """The id of a line break, which follows the role."""

    def context(self, context: SpokenContext) -> torch.Tensor:
        """(t, hidden): the user turns.  Pads are projected from the Thinker's hidden states, others from its table."""
        ids = torch.from_numpy(context.ids.astype(np.int64))
        pads = torch.isin(ids, torch.tensor(sorted(self.config.thinker_config.pads)))
        count = 0 if context.rows is None else len(context.rows)
        assert count == int(pads.sum()), f"the context has {int(pads.sum())} pads, and {count} rows"
        with torch.inference_mode():
            embedded = self.embeddings.text(ids.tolist())
            if context.rows is not None and count:
                projected = self.hidden_projection(rows_to_tensor(context.rows).to(embedded))
                embedded[pads.to(embedded.device)] = projected
            return embedded

    def answer_start(self, first: int, voice: str) -> torch.Tensor:
        """(9, hidden): the start of the assistant's turn, with the first token of its text."""
        config, talker = self.config, self.speech.talker
        pad, bos = config.tts_pad_token_id, config.tts_bos_token_id
        text = (config.im_start_token_id, config.assistant_token_id, self.newline, pad, pad, pad, pad, bos, first)
        tags = (talker.codec_nothink_id, talker.codec_think_bos_id, talker.codec_think_eos_id)
        codes = (*tags, self.speaker(voice), talker.codec_pad_id, talker.codec_bos_id)
        with torch.inference_mode():
            embedded = self.embeddings.text(text)
            embedded[-len(codes) :] += self.embeddings.codec(codes)
            return embedded

    def more_text(self, ids: Sequence[int], *, last: bool) -> torch.Tensor:
        """(n, hidden): tokens after the first; `last` appends the end of text."""
        with torch.inference_mode():
            return self.embeddings.text((*ids, self.config.tts_eos_token_id) if last else ids)

    def speaker(self, voice: str) -> int:
        """Raises UnknownVoice."""
        speakers = self.speech.talker.speaker_id
        if voice.lower() not in speakers:
            raise UnknownVoice(f"there is no voice {voice!r}; there are {', '.join(speakers)}")
        return speakers[voice.lower()]


def rows_to_tensor(rows: Rows) -> torch.Tensor:
    # A copy, since torch does not use an array that cannot be written.
    tensor = torch.from_numpy(rows.copy())
    return tensor.view(torch.bfloat16) if tensor.dtype == torch.uint16 else tensor


def rows_of_tensor(tensor: torch.Tensor) -> Rows:
    """Float32 rows as such, and those of half precision as the bits of bfloat16."""
    host = tensor.cpu()
    if host.dtype == torch.float32:
        return np.asarray(host.numpy())
    return np.asarray(host.to(torch.bfloat16).view(torch.uint16).numpy())


def text_table(checkpoint: Checkpoint, config: OmniConfig) -> torch.Tensor:
    """The embeddings of the Thinker's tokens, which the Talker uses too.  Raises ModelNotUsable."""
    text = config.thinker_config.text_config
    return checkpoint.read("thinker.model.embed_tokens.weight", (text.vocab_size, text.hidden_size))


def projection(checkpoint: Checkpoint, name: str, speech: SpeechConfig) -> Projection:
    """`text_projection` or `hidden_projection`.  Raises ModelNotUsable."""
    talker = speech.talker
    inner, hidden = talker.projection_size, talker.text_config.hidden_size
    return load_projection(checkpoint, f"talker.{name}", talker.thinker_hidden_size, inner, hidden)
