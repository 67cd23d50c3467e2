"""Voice names: the published names that clients send by default, and weighted mixes such as `af_bella(2)+af_sky`."""

import re
from collections.abc import Callable

from realtime_tts.errors import InvalidConfig
from realtime_tts.text.unicode import printable

OPENAI_VOICES = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer"),
    "verse",
)
"""The built-in voices of OpenAI's API (developers.openai.com, "Text to speech", "Voice options")."""
QWEN3_TTS_VOICES = ("vivian", "serena", "uncle_fu", "dylan", "eric", "ryan", "aiden", "ono_anna", "sohee")
"""The speakers of Qwen3-TTS, which clients of vLLM-Omni send (README of github.com/QwenLM/Qwen3-TTS)."""

MAX_MIX_VOICES = 8
MAX_MIX_CHARS = 1000
"""Bounds the time to parse one, which grows with the square of its spaces."""
MAX_MIX_WEIGHT = 1000.0
_PART = re.compile(r"(?P<name>[^()+]*?)\s*(?:\((?P<weight>[^()]*)\))?")
_WEIGHT = re.compile(r"\d{1,4}(?:\.\d{1,4})?|\.\d{1,4}", re.ASCII)

Mix = dict[str, float]
"""Weights by the name of the voice, in the order in which they were given."""


def is_mix(name: str) -> bool:
    return "+" in name or "(" in name


def parse_mix(text: str, find: Callable[[str], str]) -> Mix:
    """The voices and weights of `a+b` or `a(2)+b(1)`; a weight is 1 by default.

    `find` returns the model's own name of a voice, or raises `UnknownVoice`.  Raises `InvalidConfig`.
    """
    if len(text) > MAX_MIX_CHARS:
        raise InvalidConfig(f"a mix may have {MAX_MIX_CHARS} characters, got {len(text)}", param="voice")
    parts = text.split("+")
    if len(parts) > MAX_MIX_VOICES:
        raise InvalidConfig(f"a mix may have {MAX_MIX_VOICES} voices, got {len(parts)}", param="voice")
    mix: Mix = {}
    for part in parts:
        found = _PART.fullmatch(part.strip())
        if found is None or not found["name"]:
            raise InvalidConfig(f"a mix is written a+b or a(2)+b(1), got {printable(text[:80])!r}", param="voice")
        name = find(found["name"])
        mix[name] = mix.get(name, 0.0) + _weight(found["name"], found["weight"])
    return mix


def _weight(name: str, text: str | None) -> float:
    if text is None:
        return 1.0
    weight = float(text) if _WEIGHT.fullmatch(text.strip()) else 0.0
    if not 0.0 < weight <= MAX_MIX_WEIGHT:
        raise InvalidConfig(
            f"the weight of {printable(name[:80])} must be above 0 and at most {MAX_MIX_WEIGHT:g},"
            f" got {printable(text[:40])!r}",
            param="voice",
        )
    return weight


def mix_name(mix: Mix) -> str:
    """One text for every way to write the same mix, such as `af_bella(2)+af_sky(1)`."""
    names = list(mix)
    return names[0] if len(names) == 1 else "+".join(f"{name}({weight:.10g})" for name, weight in mix.items())
