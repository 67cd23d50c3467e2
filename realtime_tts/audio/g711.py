"""Telephone companding: ITU-T G.711 mu-law and A-law, eight bits a sample, by table."""

import numpy as np
import numpy.typing as npt

from realtime_tts.audio.pcm import Float32, Int16, pcm_int16

UInt8 = npt.NDArray[np.uint8]

_MULAW_BIAS = 132
_MULAW_CLIP = 32635
"""With the bias, a louder sample would need more than 15 bits."""


def mulaw_bytes(samples: Float32) -> bytes:
    """Float samples (n,) to n bytes; any floats, made `playable` first."""
    return _companded(_MULAW, samples)


def alaw_bytes(samples: Float32) -> bytes:
    """Float samples (n,) to n bytes; any floats, made `playable` first."""
    return _companded(_ALAW, samples)


def _companded(table: UInt8, samples: Float32) -> bytes:
    return table[pcm_int16(samples).view(np.uint16)].tobytes()


def _mulaw(pcm: Int16) -> UInt8:
    """G.711, table 2: a sign, three bits of exponent, four of mantissa, all inverted."""
    magnitude = np.minimum(np.abs(pcm.astype(np.int32)), _MULAW_CLIP) + _MULAW_BIAS
    exponent = _bit_length(magnitude) - 8
    code = (exponent << 4) | ((magnitude >> (exponent + 3)) & 15)
    inverted: UInt8 = (~np.where(pcm < 0, code | 0x80, code)).astype(np.uint8)
    return inverted


def _alaw(pcm: Int16) -> UInt8:
    """G.711, table 1: the lowest two of eight segments are linear; every other bit is inverted."""
    magnitude = np.minimum(np.abs(pcm.astype(np.int32)), 32767)
    exponent = np.maximum(_bit_length(magnitude) - 8, 0)
    code = (exponent << 4) | ((magnitude >> np.maximum(exponent + 3, 4)) & 15)
    inverted: UInt8 = (np.where(pcm < 0, code, code | 0x80) ^ 0x55).astype(np.uint8)
    return inverted


def _bit_length(values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    return np.frexp(values)[1]


_EVERY_PCM = np.arange(65_536, dtype=np.uint16).view(np.int16)
"""In the order of their bits, which index the tables."""
_MULAW, _ALAW = _mulaw(_EVERY_PCM), _alaw(_EVERY_PCM)
