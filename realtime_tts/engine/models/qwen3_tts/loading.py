"""Loading of a published directory: options, weights on the device, slots in its memory, stages on their lanes."""

from dataclasses import dataclass
from pathlib import Path

import torch

from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.api import ModelInfo, Sampling, SynthesisRequest
from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint, default_dtype
from realtime_tts.engine.models.qwen3.codec.decoder import Code2Wav
from realtime_tts.engine.models.qwen3.codec.layers import reject_unused
from realtime_tts.engine.models.qwen3.codec.stage import Code2WavStage
from realtime_tts.engine.models.qwen3.config import read_json
from realtime_tts.engine.models.qwen3.embeddings import load_projection
from realtime_tts.engine.models.qwen3.lane_stream import LaneStream
from realtime_tts.engine.models.qwen3.options import DTYPES, parse_device, require_at_least, require_one_of
from realtime_tts.engine.models.qwen3.predictor import KVMode, fastest_kv_mode
from realtime_tts.engine.models.qwen3.sampling import CodeSampling
from realtime_tts.engine.models.qwen3.talker import Talker, TalkerWeights, load_weights
from realtime_tts.engine.models.qwen3_tts.code2wav import DecoderWeights
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecConfig, SpeakerEncoderConfig
from realtime_tts.engine.models.qwen3_tts.codec_encoder import CodecEncoder
from realtime_tts.engine.models.qwen3_tts.config import (
    ModelConfig,
    ModelType,
    TalkerConfig,
    read_config,
    read_generation_config,
)
from realtime_tts.engine.models.qwen3_tts.generation import published_sampling
from realtime_tts.engine.models.qwen3_tts.memory import (
    CODEC_DIRECTORY,
    CODEC_DTYPE,
    VOICE_CACHE_BYTES,
    checkpoint_memory,
)
from realtime_tts.engine.models.qwen3_tts.model_info import SAMPLES_PER_FRAME
from realtime_tts.engine.models.qwen3_tts.prompt import PromptBuilder
from realtime_tts.engine.models.qwen3_tts.speaker_encoder import SpeakerEncoder
from realtime_tts.engine.models.qwen3_tts.stages import TalkerStage, WindowedCode2WavStage
from realtime_tts.engine.models.qwen3_tts.tokenizer import load_tokenizer
from realtime_tts.engine.models.qwen3_tts.voices import GPU_DECODER_SLOTS, VoiceBuilder
from realtime_tts.engine.models.spec import Report
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts
from realtime_tts.engine.stage import Model, StageInput, StageSpec
from realtime_tts.errors import ModelNotUsable

DECODERS = ("stateful", "windowed")
CHUNK_SIZES = (2, 4, 8, 16, 25)
CPU_SLOTS = 4
"""A CPU run checks correctness (RTF 4.6 to 6 on two cores): more streams would show nothing new."""
MIN_FRAMES = 2
"""The end is not drawn before this number of frames (reference: min_new_tokens)."""
MAX_SLOTS = 256
"""The most slots without the option: no published measurement has more on one GPU."""

CPU_COSTS = PipelineCosts(
    frame=LinearCost(0.31, 0.015), decode=LinearCost(0.08, 0.032), prefill_s=0.5, deviation_s=0.05
)
"""The 0.6B on two cores: Talker 92 ms, predictor 232, Code2Wav 138 to 875 for 1 to 25 frames (measured)."""
CUDA_COSTS = PipelineCosts(frame=LinearCost(0.009, 0.00103), decode=LinearCost(0.004, 0.00012), prefill_s=0.012)
"""An H200 by public measurements, with a decoder that keeps state: `tone.PROFILES`.  Replaced by measured costs within
seconds of use."""
CPU_STREAMS, CUDA_STREAMS = 1, 64
CPU_DECODES, CUDA_DECODES = 4, 16


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The options of `build`, validated and parsed."""

    device: torch.device
    dtype: torch.dtype
    slots: int | None
    """None: as many as fit."""
    max_len: int
    kv_mode: KVMode | None
    """None: the faster one on the device."""
    graphs: bool
    compiled: bool
    windowed: bool
    context_frames: int
    threads: int | None


def load_options(
    *,
    device: str,
    dtype: str,
    slots: int | str | None,
    max_len: int,
    predictor_kv: str,
    graphs: bool | str,
    compiled: bool,
    code2wav: str,
    context_frames: int,
    threads: int | None,
) -> LoadOptions:
    """Validates the options.  Raises ModelNotUsable, which names the invalid one."""
    torch_device = parse_device(device)
    require_one_of("dtype", dtype, ("auto", *DTYPES))
    require_one_of("predictor_kv", predictor_kv, ("auto", *KVMode))
    require_one_of("graphs", graphs, ("auto", True, False))
    require_one_of("compiled", compiled, (True, False))
    require_one_of("code2wav", code2wav, DECODERS)
    if slots not in (None, "auto"):
        require_at_least("slots", slots, 1)
    require_at_least("max_len", max_len, 64)
    require_at_least("context_frames", context_frames, 1)
    if threads is not None:
        require_at_least("threads", threads, 1)
    torch_dtype = default_dtype(torch_device) if dtype == "auto" else DTYPES[dtype]
    if compiled and torch_device.type == "cpu" and torch_dtype == torch.float32:
        raise ModelNotUsable("compiled: torch.compile cannot read the packed layout of float32 weights on a CPU")
    return LoadOptions(
        device=torch_device,
        dtype=torch_dtype,
        slots=slots if isinstance(slots, int) else None,
        max_len=max_len,
        kv_mode=None if predictor_kv == "auto" else KVMode(predictor_kv),
        graphs=torch_device.type == "cuda" if graphs == "auto" else bool(graphs),
        compiled=compiled,
        windowed=code2wav == "windowed",
        context_frames=context_frames,
        threads=threads,
    )


def load(directory: Path, info: ModelInfo, options: LoadOptions, progress: Report) -> Model:
    """Loads the model and runs a word through it.  Raises ModelNotUsable."""
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    progress(f"loading {info.name} onto {options.device}")
    config = read_config(directory)
    codec = read_json(directory / CODEC_DIRECTORY / "config.json", CodecConfig)
    _check_consistency(config, codec)
    check_max_len(config, options.max_len)
    published, max_new_tokens = _published_sampling(directory)
    tokenizer = load_tokenizer(directory, config)
    weights, speaker = load_talker(directory, config, options.device, options.dtype, compiled=options.compiled)
    decoder_weights, encoder = load_codec(directory, config, codec, options.device)
    slots = options.slots or _slots_that_fit(directory, info.name, options)
    kv_mode = options.kv_mode or _fastest_kv_mode(config, weights, slots, progress)
    talker, decoder = _allocate_slots(config, codec, weights, decoder_weights, slots, kv_mode, options)
    cuda = options.device.type == "cuda"
    if options.graphs:
        talker.capture(published, progress)
        if not options.windowed:
            decoder.capture(min(CUDA_DECODES, slots), progress)
    voices = None
    if speaker is not None and encoder is not None:
        voice_decoder = Code2Wav(
            codec.decoder_config, decoder_weights, GPU_DECODER_SLOTS if cuda else 1, options.device
        )
        voices = VoiceBuilder(speaker, encoder, voice_decoder, VOICE_CACHE_BYTES)
    talker_stage = TalkerStage(
        config,
        talker,
        PromptBuilder(config, tokenizer, weights.embeddings),
        tokenizer,
        published=published,
        max_new_tokens=max_new_tokens,
        voices=voices,
        lane_stream=LaneStream(options.device),
    )
    decoder_stage = (WindowedCode2WavStage if options.windowed else Code2WavStage)(decoder, LaneStream(options.device))
    if cuda:
        torch.cuda.synchronize(options.device)  # the lanes' streams do not wait for the one that loaded
    lanes = ("talker", "code2wav") if cuda else ("cpu", "cpu")
    model = Model(
        info=info,
        specs=(
            StageSpec("talker", lanes[0], max_batch=slots, slots=slots),
            StageSpec("code2wav", lanes[1], max_batch=CUDA_DECODES if cuda else CPU_DECODES),
        ),
        stages={"talker": (talker_stage,), "code2wav": (decoder_stage,)},
        chunk_plan=ChunkPlan(CHUNK_SIZES, left_context_frames=options.context_frames if options.windowed else 0),
        costs=CUDA_COSTS if cuda else CPU_COSTS,
        nominal_streams=CUDA_STREAMS if cuda else CPU_STREAMS,
    )
    progress(f"{info.name} has {slots} slots of {options.max_len} positions")
    _warm_up(model, config)
    return model


def check_max_len(config: ModelConfig, max_len: int) -> None:
    """Raises ModelNotUsable if the model has fewer positions."""
    if max_len > config.talker_config.max_position_embeddings:
        raise ModelNotUsable(f"max_len: at most {config.talker_config.max_position_embeddings}, got {max_len}")


def _check_consistency(config: ModelConfig, codec: CodecConfig) -> None:
    """Raises ModelNotUsable if the codec does not decode the codes that the Talker generates."""
    talker, decoder = config.talker_config, codec.decoder_config
    if decoder.num_quantizers != talker.num_code_groups:
        raise ModelNotUsable(
            f"the codec decodes {decoder.num_quantizers} codes per frame, not {talker.num_code_groups}"
        )
    if decoder.codebook_size < talker.code_predictor_config.vocab_size:
        raise ModelNotUsable(f"the codec has {decoder.codebook_size} codes, fewer than the Talker generates")
    if decoder.samples_per_frame != SAMPLES_PER_FRAME:
        raise ModelNotUsable(
            f"the codec decodes {decoder.samples_per_frame} samples per frame, not {SAMPLES_PER_FRAME}"
        )


def _published_sampling(directory: Path) -> tuple[CodeSampling, int]:
    generation = read_generation_config(directory)
    try:
        return published_sampling(generation), generation.max_new_tokens
    except ValueError as error:
        raise ModelNotUsable(f"{directory / 'generation_config.json'}: {error}") from error


@dataclass(frozen=True, slots=True)
class _SpeakerFile:
    """The part of config.json that only the Base model has."""

    speaker_encoder_config: SpeakerEncoderConfig


def load_talker_weights(checkpoint: Checkpoint, config: TalkerConfig, *, compiled: bool = False) -> TalkerWeights:
    """Reads every tensor under `talker.`.  Raises ModelNotUsable."""
    wide = config.text_hidden_size
    table = checkpoint.read("talker.model.text_embedding.weight", (config.text_vocab_size, wide))
    projection = load_projection(checkpoint, "talker.text_projection", wide, wide, config.hidden_size)
    return load_weights(checkpoint, config, table, projection, compiled=compiled)


def load_talker(
    directory: Path, config: ModelConfig, device: torch.device, dtype: torch.dtype, *, compiled: bool = False
) -> tuple[TalkerWeights, SpeakerEncoder | None]:
    """The Talker's weights, and the speaker encoder if the model clones voices.  Raises ModelNotUsable."""
    with Checkpoint(directory, device, dtype) as checkpoint:
        weights = load_talker_weights(checkpoint, config.talker_config, compiled=compiled)
        if config.tts_model_type is not ModelType.BASE:
            return weights, None
        shape = read_json(directory / "config.json", _SpeakerFile).speaker_encoder_config
        if shape.enc_dim != config.talker_config.hidden_size:
            raise ModelNotUsable(f"the speaker encoder's enc_dim {shape.enc_dim} is not the Talker's hidden_size")
        state = checkpoint.read_all("speaker_encoder.", torch.float32)
        return weights, SpeakerEncoder.from_state(shape, state, device)


def load_codec(
    directory: Path, config: ModelConfig, codec: CodecConfig, device: torch.device
) -> tuple[DecoderWeights, CodecEncoder | None]:
    """The decoder's weights, and the encoder if the model clones voices.  Raises ModelNotUsable."""
    with Checkpoint(directory / CODEC_DIRECTORY, device, CODEC_DTYPE) as checkpoint:
        state = checkpoint.read_all("decoder.")
        weights = DecoderWeights.from_state(codec.decoder_config, state)
        reject_unused(state, "decoder")
        if config.tts_model_type is not ModelType.BASE:
            checkpoint.skip_all("encoder.")
            return weights, None
        return weights, CodecEncoder.from_state(codec, checkpoint.read_all("encoder."), device)


def _slots_that_fit(directory: Path, name: str, options: LoadOptions) -> int:
    if options.device.type != "cuda":
        return CPU_SLOTS
    free, _total = torch.cuda.mem_get_info(options.device)
    memory = checkpoint_memory(directory, name, options.dtype, options.max_len)
    slots = memory.slots(free, weights_loaded=True)
    if not slots:
        raise ModelNotUsable(
            f"{options.device} has {free / 1024**3:.1f} GiB free beside the weights, too little for a slot of"
            f" {options.max_len} positions: set max_len lower"
        )
    return min(slots, MAX_SLOTS)


def _fastest_kv_mode(config: ModelConfig, weights: TalkerWeights, slots: int, progress: Report) -> KVMode:
    """Measured at half of the slots: between one stream and the full capacity."""
    mode, times_s = fastest_kv_mode(config.talker_config, weights.predictor, max(1, slots // 2), MonotonicClock().now_s)
    times = ", ".join(f"{each} {seconds * 1e3:.1f} ms" for each, seconds in times_s.items())
    progress(f"predictor_kv: {mode} is the faster (per frame: {times})")
    return mode


def _allocate_slots(
    config: ModelConfig,
    codec: CodecConfig,
    weights: TalkerWeights,
    decoder_weights: DecoderWeights,
    slots: int,
    kv_mode: KVMode,
    options: LoadOptions,
) -> tuple[Talker, Code2Wav]:
    try:
        talker = Talker(
            config.talker_config,
            weights,
            slots=slots,
            max_len=options.max_len,
            text_pad_id=config.tts_pad_token_id,
            min_frames=MIN_FRAMES,
            kv_mode=kv_mode,
        )
        return talker, Code2Wav(codec.decoder_config, decoder_weights, 1 if options.windowed else slots, options.device)
    except RuntimeError as error:  # torch raises nothing narrower for a CPU's memory
        raise ModelNotUsable(f"no memory for {slots} slots of {options.max_len} positions: {error}") from error


def _warm_up(model: Model, config: ModelConfig) -> None:
    """Runs a word through both stages, so that the first request is as fast as any other."""
    talker, decoder = model.stage("talker"), model.stage("code2wav")
    base = config.tts_model_type is ModelType.BASE
    request = SynthesisRequest(
        request_id="warm-up",
        stream_id="warm-up",
        text="Hello.",
        voice=model.info.default_voice or "",
        sampling=Sampling(seed=0, max_new_tokens=3),
        speaker_embedding=(0.0,) * config.talker_config.hidden_size if base else None,
    )
    try:
        output = talker.run([StageInput(request)])[0]
        if output.error is not None:
            raise ModelNotUsable(f"the model fails on a test word: {output.error}") from output.error
        chunk = next(model.chunk_plan.ramp(len(output.values)))
        decoder.run([StageInput(request, output.values, chunk)])
    finally:
        talker.release(request.request_id)
        decoder.release(request.request_id)
