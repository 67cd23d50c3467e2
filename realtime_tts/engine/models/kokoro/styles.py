"""Packed voices and their mixes: per voice, a style for every length of text, and its normalisation statistics."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from realtime_tts.engine.api import Voice
from realtime_tts.engine.models.kokoro.onnx_rewrite.streaming_inputs import NORM_CHANNELS
from realtime_tts.engine.voice_names import is_mix, parse_mix
from realtime_tts.errors import ModelNotUsable


@dataclass(frozen=True, slots=True)
class Style:
    """One voice."""

    table: npt.NDArray[np.float16]
    """(510, 256): see style_row."""
    norms: npt.NDArray[np.float32]
    """(2, NORM_CHANNELS): the normalisation statistics of the shortest and of a long piece of text, see
    `norms_of_row`."""

    def norms_of_row(self, row: int) -> npt.NDArray[np.float32]:
        """The model's input `norms`, (1, NORM_CHANNELS, 1): see streaming_inputs.

        A short piece is mostly the silence around it, so its statistics are others: with those of long sentences "Yes."
        was inaudible, and "Hello world." half as loud as it should be.  They follow `shortness` of the row.
        """
        share = (shortness(row) - shortness(LONG_ROW)) / (shortness(SHORT_ROW) - shortness(LONG_ROW))
        share = min(1.0, max(0.0, share))
        short, long = self.norms
        mixed: npt.NDArray[np.float32] = long + np.float32(share) * (short - long)
        return mixed.reshape(1, NORM_CHANNELS, 1)

    def row(self, row: int) -> npt.NDArray[np.float32]:
        """The model's input `style`, (1, 256)."""
        return self.table[row : row + 1].astype(np.float32)


SHORT_ROW, LONG_ROW = 3, 69
"""The rows for which statistics are packed: "No." has row 3.  Longer pieces have the statistics of the long one."""
SILENT_PHONEMES = 12
"""The silence around a piece lasts as long as so many phonemes."""


def shortness(row: int) -> float:
    """The statistics of a piece are linear in this: it explains more of their variance, 48%, than the logarithm of the
    duration (43%) or its reciprocal (47%).  The rest is what is said."""
    return 1 / (row + 1 + SILENT_PHONEMES)


MAX_CACHED_MIXES = 32
"""Of 550 KB each.  A mix takes about a millisecond to make."""


class Styles(Mapping[str, Style]):
    """The voices by name.  `styles["af_bella(2)+af_sky(1)"]` is a mix of them: their weighted mean.

    Used by one thread at a time: that of the lane on which the stages run.
    """

    def __init__(self, voices: Mapping[str, Style]) -> None:
        self._voices = dict(voices)
        self._mixes: OrderedDict[str, Style] = OrderedDict()
        """The one that was used last is at the end."""

    def __getitem__(self, name: str) -> Style:
        voice = self._voices.get(name)
        return self._mix(name) if voice is None and is_mix(name) else self._voices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._voices)

    def __len__(self) -> int:
        return len(self._voices)

    def _mix(self, name: str) -> Style:
        mixed = self._mixes.get(name)
        if mixed is None:
            mixed = self._mixes[name] = mix_styles([(self._voices[v], w) for v, w in parse_mix(name, str).items()])
            if len(self._mixes) > MAX_CACHED_MIXES:
                self._mixes.popitem(last=False)
        self._mixes.move_to_end(name)
        return mixed


def mix_styles(weighted: Sequence[tuple[Style, float]]) -> Style:
    """The weighted mean of the tables, as in Kokoro-FastAPI and in `KPipeline.load_voice` of hexgrad, and of the
    statistics.  Chunks of mixes correlate with the undivided sound as those of voices do: 0.67 to 0.88 against 0.69 to
    0.85 on two sentences, 0.57 for one mix of a female and a male voice."""
    total = sum(weight for _style, weight in weighted)
    table = sum(style.table.astype(np.float32) * (weight / total) for style, weight in weighted)
    norms = sum(style.norms * (weight / total) for style, weight in weighted)
    return Style(np.asarray(table).astype(np.float16), np.asarray(norms).astype(np.float32))


VOICES_DIR = Path(__file__).parent / "voices"
CHECKSUMS_NAME = "SHA256SUMS"
SUFFIX = ".f16"
STYLE_ROWS, STYLE_WIDTH = 510, 256

# The first letter of a voice's name is its accent, the second its gender: af_heart is American and female.
LANGUAGES = {"a": "en-US", "b": "en-GB"}


def style_row(phonemes: int) -> int:
    """The row for a piece of so many phonemes, 1 to 510: n - 1, as in hexgrad's pipeline (`pack[len(ps) - 1]`)."""
    return phonemes - 1


def is_english(name: str) -> bool:
    return name[0] in LANGUAGES and name[2:3] == "_"


def load_styles(directory: Path = VOICES_DIR) -> Styles:
    """The voices listed in the directory's SHA256SUMS, by name.

    Raises ModelNotUsable, which names the file, where one is missing, altered or of the wrong size.
    """
    return Styles(
        {
            name.removesuffix(SUFFIX): _load_style(directory / name, sha256)
            for sha256, name in _read_checksums(directory / CHECKSUMS_NAME)
        }
    )


def voices_of(styles: Mapping[str, Style]) -> tuple[Voice, ...]:
    return tuple(Voice(name=name, language=LANGUAGES[name[0]]) for name in sorted(styles))


def _read_checksums(path: Path) -> list[tuple[str, str]]:
    lines = _read(path).decode("ascii").splitlines()
    return [(sha256, name) for sha256, _, name in (line.partition("  ") for line in lines)]


def _load_style(path: Path, sha256: str) -> Style:
    packed = _read(path)
    if hashlib.sha256(packed).hexdigest() != sha256:
        raise ModelNotUsable(f"the voice file {path} is damaged: reinstall realtime-tts")
    return unpack_style(packed)


def pack_style(style: Style) -> bytes:
    """float16: half the bytes, for an error of at most 4.8e-4 in the table, which changes no output length."""
    return style.table.astype("<f2").tobytes() + style.norms.astype("<f2").tobytes()


def unpack_style(packed: bytes) -> Style:
    values = np.frombuffer(packed, dtype="<f2")
    table, norms = np.split(values, [STYLE_ROWS * STYLE_WIDTH])
    return Style(
        table=table.reshape(STYLE_ROWS, STYLE_WIDTH).astype(np.float16, copy=False),
        norms=norms.reshape(2, NORM_CHANNELS).astype(np.float32),
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelNotUsable(
            f"the voice file {path} cannot be read ({error.strerror}): reinstall realtime-tts"
        ) from error
