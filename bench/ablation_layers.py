"""Layers of the ablation, as data, and the models that they run on."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol

from realtime_tts.engine.api import Sampling, SynthesisRequest
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import qwen3_tts, tone
from realtime_tts.engine.stage import Model

GRAPHS = "graphs"
"""The option of a model to compile its steps or capture them as CUDA graphs."""
WHOLE_FRAMES = 1 << 20
"""A first chunk longer than any sentence: the whole sentence is decoded at once."""
STAGE_TIMEOUT_S = 120.0
MAX_LEN = 512
"""Positions of a slot: 40 s of speech."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    name: str
    description: str
    batched: bool = True
    """False: one request at a time; the others wait."""
    graphs: bool = True
    """Steps compiled or captured as CUDA graphs, if the model offers it."""
    streamed: bool = True
    """False: whole sentences."""
    code2wav: str = "windowed"
    scheduler: str = "round_robin"
    max_wait_s: float | None = None

    @property
    def engine(self) -> EngineConfig:
        return EngineConfig(scheduler=self.scheduler, max_wait_s=self.max_wait_s, stage_timeout_s=STAGE_TIMEOUT_S)


LAYERS = (
    Layer(
        name="baseline",
        description="one request at a time, whole sentences",
        batched=False,
        graphs=False,
        streamed=False,
    ),
    Layer(name="+ batching", description="continuous batching of both stages", graphs=False, streamed=False),
    Layer(name="+ graphs", description="steps compiled or captured as CUDA graphs", streamed=False),
    Layer(
        name="+ streaming", description="asynchronous chunks of 25 frames, each with 25 of left context, sent at once"
    ),
    Layer(
        name="+ first chunk", description="a first chunk of 2, 4, 8 or 16 frames by load, then 25", scheduler="policy_c"
    ),
    Layer(name="+ stateful", description="a Code2Wav that keeps its state", scheduler="policy_c", code2wav="stateful"),
    Layer(
        name="+ deadline",
        description="earliest playout deadline first, chunks sized by lead, admission by capacity",
        scheduler="deadline",
        code2wav="stateful",
        max_wait_s=0.5,
    ),
)
"""Each includes all previous ones, in the order in which they were published; the last one is ours."""

# -- Prompts -----------------------------------------------------------------------------------------------------------

WORDS = ("hello", "the", "world")
"""One token each, also for a small random model, so that prompts have realistic lengths in tokens."""
FRAMES_PER_CHARACTER = tone.FRAMES_PER_CHARACTER


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    seed: int

    @property
    def frames(self) -> int:
        """Frames of its speech with any model: random weights never end by themselves."""
        return max(1, round(len(self.text) * FRAMES_PER_CHARACTER))

    def request(self, request_id: str, voice: str, layer: Layer) -> SynthesisRequest:
        return SynthesisRequest(
            request_id=request_id,
            stream_id=request_id,
            text=self.text,
            voice=voice,
            streamed=layer.streamed,
            initial_codec_chunk_frames=None if layer.streamed else WHOLE_FRAMES,
            # N new tokens are N - 1 frames and the end token.
            sampling=Sampling(seed=self.seed, max_new_tokens=self.frames + 1),
        )


def prompts(count: int, shortest: int, longest: int, seed: int = 0) -> list[Prompt]:
    """Texts of `shortest` to `longest` words, all lengths equally often, in an order that depends on `seed`."""
    lengths = [shortest + index % (longest - shortest + 1) for index in range(count)]
    Random(seed).shuffle(lengths)
    return [
        Prompt(" ".join(WORDS[word % len(WORDS)] for word in range(length)), seed=index)
        for index, length in enumerate(lengths)
    ]


# -- Models ------------------------------------------------------------------------------------------------------------


class Subject(Protocol):
    """A model that the layers run on."""

    @property
    def conditions(self) -> Mapping[str, str]: ...

    def why_not_applicable(self, layer: Layer) -> str | None:
        """The reason why the layer is not applicable; None if it is."""
        ...

    def model(self, layer: Layer) -> Model:
        """Shared by all layers with the same options, so only one of them may run at a time."""
        ...


class ModelCache:
    """Loaded models by their options."""

    def __init__(self, build: Callable[..., Model], slots: int) -> None:
        self._build = build
        self._slots = slots
        self._models: dict[tuple[tuple[str, object], ...], Model] = {}

    def __call__(self, layer: Layer, options: Mapping[str, Any]) -> Model:
        slots = self._slots if layer.batched else 1
        key = (("batch", slots), *options.items())
        if key not in self._models:
            built = self._build(slots, **options)
            # The published sizes of first chunks depend on the share of the batch that is in use.
            specs = (replace(built.specs[0], slots=slots), *built.specs[1:])
            self._models[key] = replace(built, specs=specs, nominal_streams=slots)
        return self._models[key]


class Tone:
    """The test model, which waits as long as the steps of an H200 take; the profile `free` takes no time."""

    def __init__(self, slots: int, profile: str) -> None:
        self.conditions: Mapping[str, str] = {"model": f"tone, profile {profile}: costs are waited, not computed"}
        self._profile = profile
        self._models = ModelCache(_tone, slots)

    def why_not_applicable(self, layer: Layer) -> str | None:
        return "tone has fixed costs and compiles nothing" if layer is first_with_graphs() else None

    def model(self, layer: Layer) -> Model:
        stateful = f"{self._profile}_stateful"
        known = layer.code2wav == "stateful" and stateful in tone.PROFILES
        return self._models(layer, {"profile": stateful if known else self._profile})


def _tone(slots: int, profile: str) -> Model:
    return tone.build(profile=profile, max_batch=slots)


class Qwen3TTS:
    """A checkpoint on a device; `conditions` name both."""

    def __init__(
        self,
        directory: Path,
        slots: int,
        device: str,
        threads: int,
        conditions: Mapping[str, str],
        build: Callable[..., Model] = qwen3_tts.build,
    ) -> None:
        self.conditions = conditions
        self._on_gpu = device.startswith("cuda")
        self._offered = GRAPHS in inspect.signature(build).parameters
        here = partial(build, model_dir=directory, device=device, threads=threads, max_len=MAX_LEN)
        self._models = ModelCache(lambda slots, **options: here(slots=slots, **options), slots)

    def why_not_applicable(self, layer: Layer) -> str | None:
        if layer is not first_with_graphs():
            return None
        if not self._on_gpu:
            return "a CPU has no CUDA graphs, and qwen3_tts does not compile its steps"
        return None if self._offered else f"qwen3_tts has no option `{GRAPHS}`; what it captures is part of every layer"

    def model(self, layer: Layer) -> Model:
        options: dict[str, object] = {"code2wav": layer.code2wav}
        if self._offered:
            options[GRAPHS] = layer.graphs and self._on_gpu
        return self._models(layer, options)


def first_with_graphs() -> Layer:
    """The layer of the graphs; those after it run without graphs if there are none."""
    return next(layer for layer in LAYERS if layer.graphs)
