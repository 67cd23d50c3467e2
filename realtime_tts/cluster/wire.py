"""Wire format between a server and its engine replicas: the frozen values of `engine.api` as msgpack.

One message is a list of `[kind, value]`.  It is data only: nothing in it is executed or imported.  Times in it are
relative, since two machines have two clocks.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from realtime_tts import errors
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    CodesReady,
    EndStream,
    EngineCommand,
    EngineEvent,
    EngineStatus,
    Extend,
    ModelInfo,
    PlayoutEnd,
    RequestAccepted,
    RequestFinished,
    Submit,
    TextReady,
    WordsReady,
)
from realtime_tts.errors import RealtimeTTSError

VERSION = 3
"""Raised with every change of a value: a replica of another version is not used."""
PATH = "/v1/engine"
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Of one message: a request with a recording takes some megabytes."""


class MalformedWire(Exception):
    """Data of a peer that is not of this format: its connection is closed."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a replica."""

    version: int
    info: ModelInfo


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a replica: sent at an interval, which also shows that it still works."""

    status: EngineStatus


Message: TypeAlias = Hello | Status | EngineEvent
"""From a replica to a server; in the other direction go commands."""


def _kinds(*types: type) -> Mapping[str, type]:
    return {kind.__name__: kind for kind in types}


COMMANDS = _kinds(Submit, Extend, Cancel, AudioSent, PlayoutEnd, EndStream)
MESSAGES = _kinds(Hello, Status, AudioReady, WordsReady, CodesReady, RequestAccepted, TextReady, RequestFinished)

ERRORS = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, RealtimeTTSError)
}


@dataclass(frozen=True, slots=True)
class _Error:
    name: str
    text: str
    param: str | None
    retry_after_s: float | None


def _encode_other(value: object) -> object:
    if isinstance(value, np.ndarray):
        if value.dtype == np.float32 and value.ndim == 1:
            return value.astype("<f4", copy=False).tobytes()
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, RealtimeTTSError):
        text = value.message.removeprefix(f"{value.param}: ") if value.param is not None else value.message
        # An error of a model that is no class of `errors` crosses as its nearest base class there.
        name = next(base.__name__ for base in type(value).__mro__ if base.__name__ in ERRORS)
        return _Error(name, text, value.param, value.retry_after_s)
    raise NotImplementedError(f"{type(value).__name__} has no form on the wire")


def _decode_other(kind: Any, value: Any) -> object:
    if isinstance(kind, type) and issubclass(kind, RealtimeTTSError):
        error = msgspec.convert(value, _Error)
        return _rebuild(error)
    if not isinstance(value, bytes):
        return _array(value)
    if len(value) % 4:
        raise ValueError("samples are not float32")
    return np.frombuffer(value, "<f4")


_ARRAYS = frozenset({"<i4", "<u2", "<f4"})
"""Token ids and positions; hidden states.  Samples cross as bytes alone."""


def _array(value: object) -> npt.NDArray[Any]:
    kind, shape, data = msgspec.convert(value, tuple[str, tuple[int, ...], bytes])
    if kind not in _ARRAYS:
        raise ValueError(f"an array of {kind[:20]}")
    return np.frombuffer(data, kind).reshape(shape)


def _rebuild(error: _Error) -> RealtimeTTSError:
    kind = ERRORS.get(error.name, errors.InternalError)
    if error.retry_after_s is None:
        return kind(error.text) if issubclass(kind, errors.Overloaded) else kind(error.text, param=error.param)
    if issubclass(kind, errors.Overloaded):
        return kind(error.text, retry_after_s=error.retry_after_s)
    return kind(error.text, param=error.param, retry_after_s=error.retry_after_s)


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_other)
_list_decoder = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]])
_decoders: Mapping[str, Callable[[msgspec.Raw], Any]] = {
    name: msgspec.msgpack.Decoder(kind, dec_hook=_decode_other).decode
    for name, kind in {**COMMANDS, **MESSAGES}.items()
}


def encode(values: Iterable[EngineCommand | Message]) -> bytes:
    return _encoder.encode([(type(value).__name__, value) for value in values])


def decode_commands(data: bytes) -> list[EngineCommand]:
    """Raises `MalformedWire`."""
    return _decode(data, COMMANDS)


def decode_messages(data: bytes) -> list[Message]:
    """Raises `MalformedWire`."""
    return _decode(data, MESSAGES)


def _decode(data: bytes, kinds: Mapping[str, type]) -> list[Any]:
    try:
        found = []
        for name, raw in _list_decoder.decode(data):
            if name not in kinds:
                raise MalformedWire("an unknown kind of message")
            found.append(_decoders[name](raw))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedWire(str(error)) from None
    return found
