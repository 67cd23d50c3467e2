"""Aliases of voices from the configuration, added to those that a model declares."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from realtime_tts.config.load import InvalidSetting
from realtime_tts.engine.api import EngineHandle, ModelInfo
from realtime_tts.errors import RealtimeTTSError

SETTING = "http.voice_aliases"


def info_with_aliases(info: ModelInfo, model: str, configured: Mapping[str, str]) -> ModelInfo:
    """`info` with the configured aliases, which replace its own: MODEL.ALIAS, and ALIAS if it has the voice.

    Raises `InvalidSetting` for an alias of this model whose voice the model does not have.
    """
    aliases = dict(info.voice_aliases)
    for path, voice in configured.items():
        owner, _, alias = path.rpartition(".")
        if owner == model and not _has(info, voice):
            raise InvalidSetting(f"{path} is for {voice!r}, which {model} does not have", param=SETTING)
        if owner == model or (not owner and _has(info, voice)):
            aliases[alias] = voice
    return replace(info, voice_aliases=aliases)


def with_aliases(engine: EngineHandle, model: str, configured: Mapping[str, str]) -> EngineHandle:
    """The engine as this server's clients see it.  In another process or on another machine it has only its own."""
    info = info_with_aliases(engine.info, model, configured)
    return engine if info == engine.info else _AliasedEngine(engine, info)


class _AliasedEngine:
    def __init__(self, engine: EngineHandle, info: ModelInfo) -> None:
        self.info = info
        self.send = engine.send
        self.status = engine.status


def check_all_used(configured: Mapping[str, str], infos: Iterable[ModelInfo]) -> None:
    """Raises `InvalidSetting` for an alias that none of the models has."""
    used = {(alias, voice) for info in infos for alias, voice in info.voice_aliases.items()}
    for path, voice in configured.items():
        if (path.rpartition(".")[2], voice) not in used:
            raise InvalidSetting(f"{path} is for {voice!r}, which no loaded model has", param=SETTING)


def _has(info: ModelInfo, voice: str) -> bool:
    if info.clones_voices:
        return True  # it may be uploaded later
    try:
        replace(info, voice_aliases={}).find_voice(voice)  # an alias is not for another alias
    except RealtimeTTSError:
        return False
    return True
