"""Every command, event and error crosses the wire unchanged; other data is malformed."""

import dataclasses
import random
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from realtime_tts import errors
from realtime_tts.cluster import wire
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    CodesReady,
    EndStream,
    EngineCommand,
    EngineStatus,
    Extend,
    FinishReason,
    PlayoutEnd,
    Reference,
    RequestAccepted,
    RequestFinished,
    Resume,
    Sampling,
    SpokenContext,
    Submit,
    SynthesisMetrics,
    SynthesisRequest,
    TextReady,
    Word,
    WordsReady,
)
from realtime_tts.engine.models import tone

REQUEST = SynthesisRequest(
    "r",
    "s",
    "Hello.",
    "tone_low",
    speed=1.5,
    sampling=Sampling(seed=3, top_p=0.5),
    pronunciations=(("a", "b"),),
    reference=Reference("key", np.arange(5, dtype=np.float32), 24_000, "text"),
    speaker_embedding=(0.5, -0.5),
    resume=Resume(10, 5, 2, 0.25),
)
CONTEXT = SpokenContext(
    np.arange(4, dtype=np.int32),
    "key",
    rows=np.arange(6, dtype=np.uint16).reshape(3, 2),
    positions=np.zeros((3, 4), np.int32),
)
COMMANDS: list[EngineCommand] = [
    *(
        Submit(REQUEST),
        Extend("r", " more", complete=True, ids=(1, 2), context=CONTEXT),
        Cancel("r"),
        AudioSent("r", 1920, 0.5),
    ),
    *(PlayoutEnd("s", 0.0), EndStream("s")),
]


def test_every_command_comes_back_equal() -> None:
    assert {type(command).__name__ for command in COMMANDS} == set(wire.COMMANDS)
    decoded = wire.decode_commands(wire.encode(COMMANDS))
    assert decoded == COMMANDS
    assert isinstance(submitted := decoded[0], Submit)
    assert REQUEST.reference is not None
    assert submitted.request.reference is not None
    assert np.array_equal(submitted.request.reference.samples, REQUEST.reference.samples)


def test_the_context_of_an_answer_crosses_with_its_arrays() -> None:
    for context in (CONTEXT, replace(CONTEXT, rows=np.arange(6, dtype=np.float32).reshape(3, 2))):
        (extend,) = wire.decode_commands(wire.encode([Extend("r", "", complete=False, ids=(7,), context=context)]))
        assert isinstance(extend, Extend)
        assert extend.context is not None
        for name in ("ids", "rows", "positions"):
            sent, received = getattr(context, name), getattr(extend.context, name)
            assert (received.dtype, received.shape) == (sent.dtype, sent.shape), name
            assert np.array_equal(received, sent), name


def test_every_message_comes_back_equal() -> None:
    metrics = SynthesisMetrics(0.1, 0.2, 1.0, 3, None)
    messages: list[wire.Message] = [
        wire.Hello(wire.VERSION, tone.info(reads_ahead=True)),
        wire.Status(EngineStatus(True, "ready", 3, 1, 16, tone.build(thinker=True).costs)),
        WordsReady("r", (Word(0, 5, 0.0, 0.5),)),
        CodesReady("r", 96, b"\x01\x00"),
        RequestAccepted("r"),
        TextReady("r", "text", 2),
        RequestFinished("r", FinishReason.COMPLETE, metrics),
    ]
    assert wire.decode_messages(wire.encode(messages)) == messages
    samples = np.linspace(-1, 1, 1920, dtype=np.float32)
    (audio,) = wire.decode_messages(wire.encode([AudioReady("r", samples)]))
    assert isinstance(audio, AudioReady)
    assert np.array_equal(audio.samples, samples)
    assert {type(message).__name__ for message in [*messages, audio]} == set(wire.MESSAGES)


def test_every_error_keeps_its_class_text_field_and_time() -> None:
    for kind in wire.ERRORS.values():
        is_overloaded = issubclass(kind, errors.Overloaded)
        given = kind("no", retry_after_s=2.5) if is_overloaded else kind("no", param="voice", retry_after_s=2.5)
        (finished,) = wire.decode_messages(wire.encode([RequestFinished("r", FinishReason.ERROR, error=given)]))
        assert isinstance(finished, RequestFinished)
        error = finished.error
        assert type(error) is kind
        assert (error.message, error.param, error.retry_after_s) == (given.message, given.param, 2.5)


def test_an_error_class_of_a_model_crosses_as_its_base_class() -> None:
    class OwnError(errors.NothingToSpeak):
        pass

    (finished,) = wire.decode_messages(wire.encode([RequestFinished("r", FinishReason.ERROR, error=OwnError("no"))]))
    assert isinstance(finished, RequestFinished)
    assert type(finished.error) is errors.NothingToSpeak


def test_other_data_is_malformed() -> None:
    good = wire.encode([Submit(REQUEST)])
    pack = msgspec.msgpack.encode
    cases = [
        *(
            b"",
            b"\xc1",
            b"hello",
            good[:-1],
            good + b"\x00",
            pack("text"),
            pack([["Submit", 5]]),
            pack([["Other", {}]]),
        ),
        *(pack([["RequestFinished", {}]]), pack([["AudioSent", ["r", "many", 0.0]]]), b"\x91" * 100_000),
        pack([["Submit", {**msgspec.to_builtins(dataclasses.replace(REQUEST, reference=None)), "speed": "fast"}]]),
    ]
    for data in cases:
        with pytest.raises(wire.MalformedWire):
            wire.decode_commands(data)
    with pytest.raises(wire.MalformedWire):
        wire.decode_messages(pack([["AudioReady", ["r", b"123"]]]))


def test_mutated_messages_decode_or_are_malformed() -> None:
    good, chance = bytearray(wire.encode(COMMANDS)), random.Random(1)
    for _ in range(2_000):
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            wire.decode_commands(bytes(data))
        except wire.MalformedWire:
            continue
