"""Names of mixes: voices, weights, and typed errors that name the field."""

import pytest

from realtime_tts.engine.voice_names import MAX_MIX_VOICES, mix_name, parse_mix
from realtime_tts.errors import InvalidConfig


def test_a_mix_has_the_weights_that_were_given_and_1_by_default() -> None:
    for text, expected in (
        ("a+b", {"a": 1.0, "b": 1.0}),
        ("a(2)+b(1)", {"a": 2.0, "b": 1.0}),
        (" a (0.5) + b ", {"a": 0.5, "b": 1.0}),
        ("a+b+a(.5)", {"a": 1.5, "b": 1.0}),
        ("a(3)", {"a": 3.0}),
    ):
        assert parse_mix(text, str) == expected, text


def test_the_name_of_a_mix_parses_to_the_same_mix() -> None:
    for text in ("a+b", "b(0.25)+a(1000)", "a(0.0001)+b", "a(2)+a"):
        mix = parse_mix(text, str)
        assert parse_mix(mix_name(mix), str) == (mix if len(mix) > 1 else {"a": 1.0}), text


def test_the_voices_of_a_mix_are_looked_up() -> None:
    assert mix_name(parse_mix("nova+a", {"nova": "b", "a": "a"}.__getitem__)) == "b(1)+a(1)"


def test_a_bad_mix_is_refused_with_the_field() -> None:
    too_many = "+".join("abcdefghi"[: MAX_MIX_VOICES + 1])
    for text, part in (
        ("a(0)+b", "weight of a"),
        ("a+b(-1)", "weight of b"),
        ("a(1e9)+b", "weight of a"),
        ("a(nan)+b", "weight of a"),
        ("a(1001)+b", "weight of a"),
        ("a()+b", "weight of a"),
        ("a+", "written a+b"),
        ("+", "written a+b"),
        ("(2)+a", "written a+b"),
        ("a(2", "written a+b"),
        ("a(2)b", "written a+b"),
        ("a((2))", "written a+b"),
        (too_many, "8 voices, got 9"),
        ("a" + " " * 200_000 + "(", "1000 characters"),
    ):
        with pytest.raises(InvalidConfig, match="voice") as refused:
            parse_mix(text, str)
        assert refused.value.param == "voice", text
        assert part in refused.value.message, text
