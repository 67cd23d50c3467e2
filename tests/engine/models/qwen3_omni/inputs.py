"""Conversations of the goldens: their texts, audio and images, made by formulas.  Imports nothing of this project."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
RATE_HZ = 16_000
CLIPS_S = (0.4, 1.37, 2.005, 9.3)
"""Lengths of audio that is encoded alone: less than a second, parts of seconds, more than one window of attention."""
SIZES = ((64, 96), (50, 90), (32, 320), (20, 24))
"""Heights and widths of images that are encoded alone: with and without a change of size, wide, and too small."""


def speech(seconds: float, seed: int = 0) -> npt.NDArray[np.float32]:
    """A rising tone with noise, fading in and out."""
    time_s = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    noise = np.random.default_rng(seed).normal(0, 0.02, len(time_s))
    tone = 0.3 * np.sin(2 * np.pi * (200 + 50 * seed + 300 * time_s / max(seconds, 1)) * time_s)
    return ((tone + noise) * np.hanning(len(time_s))).astype(np.float32)


def picture(height: int, width: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def audio(seconds: float, seed: int) -> dict[str, Any]:
    return {"type": "audio", "samples": speech(seconds, seed)}


def image(height: int, width: int, seed: int) -> dict[str, Any]:
    return {"type": "image", "pixels": picture(height, width, seed)}


def message(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


SYSTEM = message("system", text("You are the world."))
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "text": [SYSTEM, message("user", text("how are you today?"))],
    "turns": [
        message("user", text("\nhello world, 12:30")),
        message("assistant", text("I am the world.")),
        message("user", text("how are you?")),
    ],
    "audio": [SYSTEM, message("user", audio(1.37, 1), text("how are you?"))],
    "image": [SYSTEM, message("user", image(64, 96, 2), text("how are you?"))],
    "mixed": [
        SYSTEM,
        message("user", text("the "), image(64, 64, 3), text(" hello "), audio(1.2, 4)),
        message("assistant", text("hello")),
        message("user", audio(2.1, 5), image(32, 64, 6), text("how")),
    ],
}
