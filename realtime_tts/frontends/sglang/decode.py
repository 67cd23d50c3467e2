"""Decoding of SGLang-Omni's dialect: a config nested under `session`, text, commits, and one end per connection."""

from dataclasses import replace

from realtime_tts.errors import InvalidConfig, InvalidMessage, UnreadableConfig
from realtime_tts.frontends.native.decode import Fields, to_input
from realtime_tts.session.inputs import Close, Commit, Configure, Done, SessionInput
from realtime_tts.text.unicode import printable

TYPES = ("session.config", "input.text", "input.commit", "input.done")
DEFAULTS: Fields = {"response_format": "pcm", "max_buffer_delay_ms": 0.0}
"""Where they differ from ours.  Text waits for the end of its sentence or a commit, for any time."""
DEFAULT_VOICE = "default"

NOT_HERE = frozenset({"streaming_mode", "word_timestamps", "timestamps_as", "frame_header", "on_new_context"})
"""Fields of our own `session.config` whose messages this dialect does not have."""
_RECORDINGS = ("audio_path", "ref_audio", "audio", "data")
"""Names of the recording in an item of `references`."""


def to_inputs(kind: str, fields: Fields) -> tuple[SessionInput, ...]:
    """Raises `InvalidMessage` or `InvalidConfig` with the name of the field that is wrong."""
    match kind:
        case "session.config":
            return (_configure(fields),)
        case "input.text":
            return (to_input(kind, {name: fields[name] for name in fields if name == "text"}),)
        case "input.commit":
            return (Commit(),)
        case "input.done":
            return (Done(), Close())
    message = f"unknown message type {printable(kind[:80])!r}; the types are {', '.join(TYPES)}"
    raise InvalidMessage(message, param="type")


def _configure(fields: Fields) -> SessionInput:
    outer = {name: value for name, value in fields.items() if name != "session"}
    nested = fields.get("session")
    if nested is None:
        nested, outer = outer, {}
    if not isinstance(nested, dict):
        raise UnreadableConfig("must be an object", param="session")
    settings = {name: value for name, value in nested.items() if value is not None and name not in NOT_HERE}
    for name in ("voice", "speaker"):
        if isinstance(voice := settings.get(name), str) and voice.lower() == DEFAULT_VOICE:
            del settings[name]
    if (references := settings.pop("references", None)) is not None:
        settings = {**_reference(references), **settings}
    configure = to_input("session.config", {**DEFAULTS, **settings})
    assert isinstance(configure, Configure), "the input of a config"
    ignored = (*outer, *(name for name in nested if name in NOT_HERE))
    return replace(configure, unknown=(*configure.unknown, *map(printable, ignored)))


def _reference(references: object) -> Fields:
    """The one recording of `references`, as our fields."""
    if not isinstance(references, list) or not references or not isinstance(references[0], dict):
        raise UnreadableConfig("must be a list of one object", param="references")
    if len(references) > 1:
        raise InvalidConfig(f"must have one recording, got {len(references)}", param="references")
    (first,) = references
    recording = next((first[name] for name in _RECORDINGS if first.get(name) is not None), None)
    named = {"ref_audio": recording, "ref_text": first.get("text")}
    return {name: value for name, value in named.items() if value is not None}
