"""Audio and images of a prompt as embeddings, each encoded once: a cache by content."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from realtime_tts.engine.api import AudioPart, ImagePart
from realtime_tts.engine.models.qwen3_omni.audio_tower import AudioTower
from realtime_tts.engine.models.qwen3_omni.config import PreprocessorConfig, ThinkerConfig
from realtime_tts.engine.models.qwen3_omni.image import Grid, fit, patches
from realtime_tts.engine.models.qwen3_omni.mel import log_mel
from realtime_tts.engine.models.qwen3_omni.vision_tower import Encoded, VisionTower
from realtime_tts.engine.thinking.thinker import ThinkerPrompt

CACHE_BYTES = 256 * 1024**2
"""Audio takes 26 KiB per second in bf16, an image of 1000 × 1000 pixels 15 MiB with its deepstack."""


@dataclass(frozen=True, slots=True)
class Item:
    """Audio or an image in a prompt: its pads are `[start, end)`."""

    start: int
    end: int
    part: AudioPart | ImagePart


def items_of(prompt: ThinkerPrompt, config: ThinkerConfig) -> tuple[Item, ...]:
    """The runs of pads in a prompt, with their audio and images in order."""
    audio, images = iter(prompt.audio), iter(prompt.images)
    items: list[Item] = []
    start = 0
    for end in range(1, len(prompt.ids) + 1):
        if end < len(prompt.ids) and prompt.ids[end] == prompt.ids[start]:
            continue
        if prompt.ids[start] == config.audio_token_id:
            items.append(Item(start, end, next(audio)))
        elif prompt.ids[start] == config.image_token_id:
            items.append(Item(start, end, next(images)))
        start = end
    assert not [*audio, *images], "the prompt has audio or images without pads"
    return tuple(items)


class MediaEncoder:
    """The towers, with the most recently used results in at most `limit_bytes`.  Owned by one thread."""

    def __init__(
        self,
        audio_tower: AudioTower | None,
        vision_tower: VisionTower | None,
        preprocessor: PreprocessorConfig,
        limit_bytes: int = CACHE_BYTES,
    ) -> None:
        self._audio_tower = audio_tower
        self._vision_tower = vision_tower
        self._preprocessor = preprocessor
        self._limit_bytes = limit_bytes
        self._encoded: OrderedDict[str, Encoded] = OrderedDict()
        self._bytes = 0

    def __call__(self, part: AudioPart | ImagePart) -> Encoded:
        key = f"{type(part).__name__} {part.key}"
        if key in self._encoded:
            self._encoded.move_to_end(key)
            return self._encoded[key]
        encoded = self._encode(part)
        self._encoded[key] = encoded
        self._bytes += _bytes(encoded)
        while self._bytes > self._limit_bytes:
            self._bytes -= _bytes(self._encoded.popitem(last=False)[1])
        return encoded

    def grid(self, part: AudioPart | ImagePart) -> Grid | None:
        """The tokens of an image; None for audio."""
        if isinstance(part, AudioPart):
            return None
        return fit(part.pixels.shape[0], part.pixels.shape[1], self._preprocessor)

    def _encode(self, part: AudioPart | ImagePart) -> Encoded:
        if isinstance(part, AudioPart):
            assert self._audio_tower is not None, "audio is refused by the chat format"
            embeddings = self._audio_tower(log_mel(part.samples))
            return Encoded(embeddings, embeddings.new_empty(0, *embeddings.shape))
        assert self._vision_tower is not None, "images are refused by the chat format"
        grid = fit(part.pixels.shape[0], part.pixels.shape[1], self._preprocessor)
        return self._vision_tower(patches(part.pixels, grid), grid)


def _bytes(encoded: Encoded) -> int:
    return encoded.embeddings.nbytes + encoded.deepstack.nbytes


def content_keys(ids: Sequence[int], items: Sequence[Item]) -> list[object]:
    """What the hidden state at each position depends on there: its token, or its place in audio or an image."""
    keys: list[object] = list(ids)
    for item in items:
        kind = type(item.part).__name__
        keys[item.start : item.end] = [(kind, item.part.key, index) for index in range(item.end - item.start)]
    return keys


def stacked_deepstack(
    encoded: Sequence[tuple[int, torch.Tensor]], length: int, like: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """One (1, length, hidden) for each level: features (levels, n, hidden) from each start, zeros elsewhere."""
    levels = max((features.shape[0] for _start, features in encoded), default=0)
    added = tuple(like.new_zeros(1, length, like.shape[-1]) for _ in range(levels))
    for start, features in encoded:
        for level, values in zip(added, features, strict=False):  # audio has none
            level[0, start : start + values.shape[0]] = values
    return added
