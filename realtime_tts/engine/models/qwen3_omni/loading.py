"""Loading of a published directory: options, weights on their devices, slots, stages and the Thinker."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.api import ModelInfo, Sampling, SynthesisRequest
from realtime_tts.engine.models.qwen3.byte_pairs import BytePairs, load_byte_pairs
from realtime_tts.engine.models.qwen3.checkpoint import default_dtype
from realtime_tts.engine.models.qwen3.codec.decoder import Code2Wav
from realtime_tts.engine.models.qwen3.codec.stage import Code2WavStage
from realtime_tts.engine.models.qwen3.feed_forward import ExpertsMethod, default_method
from realtime_tts.engine.models.qwen3.lane_stream import LaneStream
from realtime_tts.engine.models.qwen3.options import DTYPES, parse_device, require_at_least, require_one_of
from realtime_tts.engine.models.qwen3.predictor import KVMode, fastest_kv_mode
from realtime_tts.engine.models.qwen3.sampling import CodeSampling, SamplingParams
from realtime_tts.engine.models.qwen3.talker import Talker
from realtime_tts.engine.models.qwen3_omni.chat import AUDIO, IMAGE, OmniChat
from realtime_tts.engine.models.qwen3_omni.config import (
    GenerationConfig,
    OmniConfig,
    SpeechConfig,
    read_config,
    read_generation_config,
    read_preprocessor_config,
)
from realtime_tts.engine.models.qwen3_omni.context import TalkerInputs
from realtime_tts.engine.models.qwen3_omni.media import MediaEncoder
from realtime_tts.engine.models.qwen3_omni.memory import OmniMemory, checkpoint_values, omni_memory
from realtime_tts.engine.models.qwen3_omni.prefix_cache import PrefixCache
from realtime_tts.engine.models.qwen3_omni.stages import NoSpeechStage, TalkerStage
from realtime_tts.engine.models.qwen3_omni.thinker import NativeThinker
from realtime_tts.engine.models.qwen3_omni.weights import OmniWeights, SpeechWeights, load_omni_weights
from realtime_tts.engine.models.spec import Report
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts
from realtime_tts.engine.stage import Model, Stage, StageInput, StageSpec
from realtime_tts.engine.thinking.thinker import Answering
from realtime_tts.errors import ModelNotUsable

META = torch.device("meta")
MIN_TORCH = (2, 10)
"""The first with `torch.nn.functional.grouped_mm`."""
CHUNK_SIZES = (2, 4, 8, 16, 25)
CPU_SLOTS, MAX_SLOTS = 4, 64
"""A CPU run checks correctness; a published table has 64 conversations."""
CPU_DECODES, CUDA_DECODES = 4, 16
PREDICTOR = SamplingParams(temperature=1.0, top_k=50, top_p=0.8)
"""The reference's own: no file has them."""
CPU_COSTS = PipelineCosts(frame=LinearCost(0.3, 0.05), decode=LinearCost(0.08, 0.032), prefill_s=0.5, deviation_s=0.05)
CUDA_COSTS = PipelineCosts(frame=LinearCost(0.008, 0.00025), decode=LinearCost(0.004, 0.00012), prefill_s=0.01)
"""Assumed, from the bytes that a step reads and an H200's bandwidth.  Replaced by measured costs within seconds."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The options of `build`, validated and parsed."""

    device: torch.device
    """Of the Talker and Code2Wav."""
    thinker_device: torch.device
    dtype: torch.dtype
    slots: int | None
    """Conversations at once; None: as many as fit."""
    max_len: int
    thinker_max_len: int
    audio_input: bool
    image_input: bool
    kv_mode: KVMode | None
    """None: the faster one on the device."""
    graphs: bool
    threads: int | None

    @property
    def input_modalities(self) -> frozenset[str]:
        accepted = {AUDIO: self.audio_input, IMAGE: self.image_input}
        return frozenset(name for name, accepts in accepted.items() if accepts)


def load_options(
    *,
    device: str,
    thinker_device: str | None,
    dtype: str,
    slots: int | str | None,
    max_len: int,
    thinker_max_len: int,
    audio_input: bool,
    image_input: bool,
    predictor_kv: str,
    graphs: bool | str,
    threads: int | None,
) -> LoadOptions:
    """Validates the options.  Raises ModelNotUsable, which names the invalid one."""
    _check_torch(torch.__version__)
    speech_device = parse_device(device)
    own_device = speech_device if thinker_device is None else parse_device(thinker_device)
    require_one_of("dtype", dtype, ("auto", *DTYPES))
    require_one_of("predictor_kv", predictor_kv, ("auto", *KVMode))
    require_one_of("graphs", graphs, ("auto", True, False))
    require_one_of("audio_input", audio_input, (True, False))
    require_one_of("image_input", image_input, (True, False))
    if slots not in (None, "auto"):
        require_at_least("slots", slots, 1)
    require_at_least("max_len", max_len, 64)
    require_at_least("thinker_max_len", thinker_max_len, 64)
    if threads is not None:
        require_at_least("threads", threads, 1)
    torch_dtype = default_dtype(speech_device) if dtype == "auto" else DTYPES[dtype]
    return LoadOptions(
        device=speech_device,
        thinker_device=own_device,
        dtype=torch_dtype,
        slots=slots if isinstance(slots, int) else None,
        max_len=max_len,
        thinker_max_len=thinker_max_len,
        audio_input=audio_input,
        image_input=image_input,
        kv_mode=None if predictor_kv == "auto" else KVMode(predictor_kv),
        graphs=_graphs(graphs, {speech_device, own_device}, torch_dtype),
        threads=threads,
    )


def _check_torch(version: str) -> None:
    """Raises ModelNotUsable for a torch without `grouped_mm`."""
    if tuple(map(int, version.split(".")[:2])) < MIN_TORCH:
        raise ModelNotUsable(f"qwen3_omni needs torch {MIN_TORCH[0]}.{MIN_TORCH[1]} or newer, this is {version}")


def _graphs(graphs: bool | str, devices: set[torch.device], dtype: torch.dtype) -> bool:
    """Raises ModelNotUsable for GPUs on which the experts cannot be captured."""
    gpus = [device for device in devices if device.type == "cuda"]
    can_capture = all(default_method(gpu, dtype) is ExpertsMethod.GROUPED for gpu in gpus)
    if graphs is True and not can_capture:
        raise ModelNotUsable("graphs: the experts can be captured in bfloat16 from compute capability 9.0 on")
    return bool(gpus) and can_capture if graphs == "auto" else bool(graphs)


def check_directory(directory: Path, options: LoadOptions) -> OmniConfig:
    """Checks all files by their headers, without reading weights.  Raises ModelNotUsable."""
    config = read_config(directory)
    _check_positions("thinker_max_len", options.thinker_max_len, config.thinker_config.stack.max_position_embeddings)
    if config.speech is not None:
        _check_positions("max_len", options.max_len, config.speech.talker.stack.max_position_embeddings)
    read_generation_config(directory)
    read_preprocessor_config(directory)
    load_byte_pairs(directory, config.thinker_config.text_config.vocab_size)
    load_omni_weights(directory, config, thinker_device=META, speech_device=META, dtype=torch.float32)
    return config


def _check_positions(option: str, positions: int, most: int) -> None:
    if positions > most:
        raise ModelNotUsable(f"{option}: at most {most}, got {positions}")


def load(directory: Path, info: ModelInfo, options: LoadOptions, progress: Report) -> Model:
    """Loads the model and runs a few tokens through it.  Raises ModelNotUsable."""
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    progress(f"checking {directory}")
    config = check_directory(directory, options)
    progress(f"loading {info.name}: the Thinker onto {options.thinker_device}, its speech onto {options.device}")
    weights = load_omni_weights(
        directory,
        config,
        thinker_device=options.thinker_device,
        speech_device=options.device,
        dtype=options.dtype,
        audio_input=options.audio_input,
        image_input=options.image_input,
        progress=progress,
    )
    slots = options.slots or _slots_that_fit(directory, config, options)
    byte_pairs = load_byte_pairs(directory, config.thinker_config.text_config.vocab_size)
    answering = _answering(directory, config, weights, byte_pairs, slots, options, progress)
    if weights.speech is None or config.speech is None:
        return _text_model(info, slots, answering)
    generation = read_generation_config(directory)
    model = _speech_model(
        info, config, config.speech, weights.speech, byte_pairs, generation, slots, options, answering, progress
    )
    _warm_up(model)
    return model


def _answering(
    directory: Path,
    config: OmniConfig,
    weights: OmniWeights,
    byte_pairs: BytePairs,
    slots: int,
    options: LoadOptions,
    progress: Report,
) -> Answering:
    preprocessor = read_preprocessor_config(directory)

    def make_thinker() -> NativeThinker:
        """With the weights that are loaded, and an empty cache."""
        thinker = NativeThinker(
            config,
            weights.thinker,
            MediaEncoder(weights.audio_tower, weights.vision_tower, preprocessor),
            slots=slots,
            max_len=options.thinker_max_len,
            input_modalities=options.input_modalities,
        )
        if options.graphs:
            thinker.capture(progress)
        return thinker

    chat = OmniChat(
        config,
        preprocessor,
        byte_pairs,
        max_positions=options.thinker_max_len - 1,
        input_modalities=options.input_modalities,
    )
    return Answering(make_thinker, chat)


def _text_model(info: ModelInfo, slots: int, answering: Answering) -> Model:
    """A model without a Talker: its stages refuse to speak."""
    names = ("talker", "code2wav")
    return Model(
        info=info,
        specs=tuple(StageSpec(name, "cpu", slots=slots) for name in names),
        stages={name: (NoSpeechStage(),) for name in names},
        chunk_plan=ChunkPlan(CHUNK_SIZES),
        costs=CPU_COSTS,
        answering=answering,
    )


def _speech_model(
    info: ModelInfo,
    config: OmniConfig,
    speech: SpeechConfig,
    weights: SpeechWeights,
    byte_pairs: BytePairs,
    generation: GenerationConfig,
    slots: int,
    options: LoadOptions,
    answering: Answering,
    progress: Report,
) -> Model:
    published = published_sampling(generation)
    cuda = options.device.type == "cuda"
    kv_mode = options.kv_mode or _fastest_kv_mode(speech, weights, slots, progress)
    try:
        talker = Talker(
            speech.talker.stack,
            weights.talker,
            slots=slots,
            max_len=options.max_len,
            text_pad_id=config.tts_pad_token_id,
            min_frames=0,
            kv_mode=kv_mode,
        )
        decoder = Code2Wav(speech.decoder, weights.decoder, slots, options.device)
    except RuntimeError as error:  # torch raises nothing narrower for a CPU's memory
        raise ModelNotUsable(f"no memory for {slots} slots of {options.max_len} positions: {error}") from error
    if options.graphs:
        talker.capture(published, progress)
        decoder.capture(min(CUDA_DECODES, slots), progress)
    talker_stage = TalkerStage(
        talker,
        TalkerInputs(
            config, speech, weights.talker.embeddings, weights.hidden_projection, byte_pairs.single_token("\n")
        ),
        byte_pairs,
        published=published,
        max_new_tokens=generation.talker_max_new_tokens,
        prefixes=PrefixCache(config.thinker_config.pads),
        lane_stream=LaneStream(options.device),
    )
    if cuda:
        torch.cuda.synchronize(options.device)  # the lanes' streams do not wait for the one that loaded
    lanes = ("talker", "code2wav") if cuda else ("cpu", "cpu")
    stages: dict[str, tuple[Stage, ...]] = {
        "talker": (talker_stage,),
        "code2wav": (Code2WavStage(decoder, LaneStream(options.device)),),
    }
    progress(f"{info.name} has {slots} slots of {options.max_len} positions")
    return Model(
        info=info,
        specs=(
            StageSpec("talker", lanes[0], max_batch=slots, slots=slots),
            StageSpec("code2wav", lanes[1], max_batch=CUDA_DECODES if cuda else CPU_DECODES),
        ),
        stages=stages,
        chunk_plan=ChunkPlan(CHUNK_SIZES),
        costs=CUDA_COSTS if cuda else CPU_COSTS,
        nominal_streams=slots,
        answering=answering,
    )


def published_sampling(generation: GenerationConfig) -> CodeSampling:
    """How the Talker samples without a request's own parameters.  Raises ModelNotUsable for invalid ones."""
    temperature = generation.talker_temperature if generation.talker_do_sample else 0
    try:
        talker = SamplingParams(temperature, generation.talker_top_k, generation.talker_top_p)
        # The reference's predictor is greedy where its Talker is.
        predictor = PREDICTOR if generation.talker_do_sample else SamplingParams(0)
        return CodeSampling(talker, predictor, generation.talker_repetition_penalty)
    except ValueError as error:
        raise ModelNotUsable(f"generation_config.json: {error}") from error


def memory_of(directory: Path, config: OmniConfig, options: LoadOptions) -> OmniMemory:
    """The memory of a directory with these options.  Raises ModelNotUsable."""
    values = checkpoint_values(directory)
    skipped = {"audio tower": options.audio_input, "vision tower": options.image_input}
    loaded = {name: count if skipped.get(name, True) else 0 for name, count in values.items()}
    return omni_memory(config, loaded, options.dtype, max_len=options.max_len, thinker_max_len=options.thinker_max_len)


def _slots_that_fit(directory: Path, config: OmniConfig, options: LoadOptions) -> int:
    """Into what is free beside the weights, on each device."""
    memory = memory_of(directory, config, options)
    counts = [CPU_SLOTS if options.device.type != "cuda" else MAX_SLOTS]
    for device, fit in _fits(memory, options):
        if device.type == "cuda":
            free, _total = torch.cuda.mem_get_info(device)
            counts.append(fit(free))
            if not counts[-1]:
                raise ModelNotUsable(
                    f"{device} has {free / 1024**3:.1f} GiB free beside the weights, too little for one conversation:"
                    f" set max_len and thinker_max_len lower, or thinker_device to another GPU"
                )
    return min(counts)


def _fits(memory: OmniMemory, options: LoadOptions) -> list[tuple[torch.device, Callable[[int], int]]]:
    """For each device, the conversations that fit into its free memory after the weights are loaded."""
    if options.device == options.thinker_device:
        return [(options.device, lambda free: memory.slots(free, weights_loaded=True))]
    return [
        (options.device, lambda free: memory.speech_slots(free, weights_loaded=True)),
        (options.thinker_device, lambda free: memory.thinker_slots(free, weights_loaded=True)),
    ]


def _fastest_kv_mode(speech: SpeechConfig, weights: SpeechWeights, slots: int, progress: Report) -> KVMode:
    """Measured at half of the slots: between one stream and the full capacity."""
    rows = max(1, slots // 2)
    mode, times_s = fastest_kv_mode(speech.talker.stack, weights.talker.predictor, rows, MonotonicClock().now_s)
    times = ", ".join(f"{each} {seconds * 1e3:.1f} ms" for each, seconds in times_s.items())
    progress(f"predictor_kv: {mode} is the faster (per frame: {times})")
    return mode


def _warm_up(model: Model) -> None:
    """Speaks a word, so that the first request is as fast as any other."""
    talker, decoder = model.stage("talker"), model.stage("code2wav")
    request = SynthesisRequest(
        request_id="warm-up",
        stream_id="warm-up",
        text="Hello.",
        voice=model.info.default_voice or "",
        sampling=Sampling(seed=0, max_new_tokens=3),
    )
    try:
        output = talker.run([StageInput(request)])[0]
        if output.error is not None:
            raise ModelNotUsable(f"the model fails on a test word: {output.error}") from output.error
        if len(output.values):
            decoder.run([StageInput(request, output.values, next(model.chunk_plan.ramp(len(output.values))))])
    finally:
        talker.release(request.request_id)
        decoder.release(request.request_id)
