"""Command `explain`: what a model will speak for a text, in words and phonemes, without speaking it."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from realtime_tts.cli.options import with_settings
from realtime_tts.config.load import Resolved
from realtime_tts.errors import InvalidConfig, NothingToSpeak, UnknownVoice

if TYPE_CHECKING:
    from realtime_tts.engine.api import ModelInfo
    from realtime_tts.engine.models.spec import Reader

STDIN = "-"


@dataclass(frozen=True, slots=True)
class ExplainedSentence:
    text: str
    spoken: str
    phonemes: str | None
    pause_ms: int
    """Silence before the sentence, from `[pause:1.5s]` or `<break time="1s"/>`."""


@dataclass(frozen=True, slots=True)
class Explanation:
    model: str
    voice: str | None
    language: str
    sentences: tuple[ExplainedSentence, ...]


@with_settings("model.name", "model.dir")
def explain(
    resolved: Resolved,
    text: Annotated[str, typer.Argument(help="Text to explain; - reads standard input.")],
    voice: Annotated[str | None, typer.Option(help="See `realtime-tts voices`.  [default: the model's]")] = None,
    language: Annotated[
        str | None,
        typer.Option(help="BCP-47 tag, such as en-GB: selects a voice of that language.  [default: the voice's]"),
    ] = None,
    text_filters: Annotated[
        str,
        typer.Option(
            help="Mark-up to remove, as in a session: some of markdown,emoji,code,urls,tags.  [default: none]"
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
) -> None:
    """Show how a text will be spoken: its sentences, each in words and in phonemes.

    Use it when a word, a number or an abbreviation sounds wrong, and before you write `pronunciations`.  No server is
    needed, and the voice itself is not loaded.  Phonemes are the model's own symbols; a model that reads letters has
    none.  Example:

    realtime-tts explain 'I read it on 3/4. Dr. Hale paid $5.' --voice bf_emma
    """
    from realtime_tts.cli.configured_models import configured_models  # imports numpy; `--help` need not
    from realtime_tts.engine import models

    configured = configured_models(resolved.config.model)[0]
    info = configured.info()
    chosen = choose_voice(info, voice, language)
    make_reader = models.find(configured.kind).reader
    source = sys.stdin.read() if text == STDIN else text
    filters = tuple(name.strip() for name in text_filters.split(",") if name.strip())
    explanation = explain_text(source, info, chosen, language, None if make_reader is None else make_reader(), filters)
    if as_json:
        print(msgspec.json.encode(explanation).decode())  # noqa: T201
    else:
        print(table(explanation))  # noqa: T201


def choose_voice(info: "ModelInfo", voice: str | None, language: str | None) -> str | None:
    """The voice as given, else the default one if it speaks `language`, else the first that does.

    Raises `UnknownVoice`, and `InvalidConfig` if no voice, or not this one, speaks the language.
    """
    if voice is not None and voice not in info.voice_names:
        raise UnknownVoice(f"there is no voice {voice[:80]!r}; `realtime-tts voices` lists them", param="voice")
    if language is None or (not info.voices and info.languages):
        return voice or info.default_voice
    candidates = [each.name for each in info.voices if _matches(each.language, language)]
    if not candidates:
        spoken = ", ".join(sorted({each.language for each in info.voices}))
        raise InvalidConfig(f"{info.name} has no voice for {language[:80]!r}; it speaks {spoken}", param="language")
    if voice is not None and voice not in candidates:
        raise InvalidConfig(f"{voice} does not speak {language[:80]!r}; try {candidates[0]}", param="language")
    preferred = voice or info.default_voice
    return preferred if preferred in candidates else candidates[0]


def _matches(tag: str, wanted: str) -> bool:
    """Whether a voice's tag is the wanted one, or the wanted one has no region."""
    from realtime_tts.text.languages import primary_language

    if primary_language(wanted) != primary_language(tag):
        return False
    region = wanted.replace("_", "-").partition("-")[2].lower()
    return not region or region == tag.partition("-")[2].lower()


def explain_text(
    text: str,
    info: "ModelInfo",
    voice: str | None,
    language: str | None,
    reader: "Reader | None",
    filters: tuple[str, ...] = (),
) -> Explanation:
    """The text as a session splits it and the model reads it.

    Raises `InvalidConfig` for an unknown filter, and `NothingToSpeak` if there are no words.
    """
    from realtime_tts.text.cleaner import TextCleaner, TextFilter
    from realtime_tts.text.languages import primary_language
    from realtime_tts.text.splitter import SentenceSplitter
    from realtime_tts.text.unicode import is_speakable

    known = {each.value for each in TextFilter}
    if unknown := [name for name in filters if name not in known]:
        raise InvalidConfig(
            f"there is no filter {unknown[0][:40]!r}; use {', '.join(sorted(known))}", param="text_filters"
        )
    tag = next((each.language for each in info.voices if each.name == voice), language or "en")
    cleaner = TextCleaner(frozenset(TextFilter(name) for name in filters))
    splitter = SentenceSplitter(language=primary_language(tag))
    sentences = splitter.push(cleaner.push(text) + cleaner.flush()) + splitter.finish()
    explained = []
    for sentence in sentences:
        if is_speakable(sentence.text):
            reading = None if reader is None else reader(sentence.text, voice or "")
            spoken, phonemes = (sentence.text, None) if reading is None else (reading.spoken, reading.phonemes)
            explained.append(ExplainedSentence(sentence.text, spoken, phonemes, round(sentence.pause_s * 1000)))
    if not explained:
        raise NothingToSpeak("there are no words in this text")
    return Explanation(info.name, voice, tag, tuple(explained))


def table(explanation: Explanation) -> str:
    """For a person: each sentence with its words and its phonemes."""
    lines = [f"model {explanation.model}, voice {explanation.voice or 'none'}, language {explanation.language}"]
    for sentence in explanation.sentences:
        lines.append("")
        if sentence.pause_ms:
            lines.append(f"pause     {sentence.pause_ms} ms")
        lines.append(f"text      {sentence.text}")
        lines.append(f"spoken    {sentence.spoken}")
        if sentence.phonemes is not None:
            lines.append(f"phonemes  {sentence.phonemes}")
    return "\n".join(lines)
