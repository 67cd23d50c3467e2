"""A published directory to a model that runs: weights onto the device, slots into its memory, stages onto lanes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.api import ModelInfo, SynthesisRequest
from realtime_tts.engine.api import Sampling as Wish
from realtime_tts.engine.models.qwen3_tts.about import SAMPLES_PER_FRAME
from realtime_tts.engine.models.qwen3_tts.budget import (
    CODEC_DIRECTORY,
    CODEC_DTYPE,
    VOICE_CACHE_BYTES,
    slots_that_fit,
)
from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint, default_dtype
from realtime_tts.engine.models.qwen3_tts.code2wav import Code2Wav, DecoderWeights
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecConfig, SpeakerEncoderConfig
from realtime_tts.engine.models.qwen3_tts.codec_encoder import CodecEncoder
from realtime_tts.engine.models.qwen3_tts.codec_layers import refuse_leftovers
from realtime_tts.engine.models.qwen3_tts.config import (
    ModelConfig,
    ModelType,
    read_config,
    read_generation_config,
    read_json,
)
from realtime_tts.engine.models.qwen3_tts.predictor import Recall, quickest
from realtime_tts.engine.models.qwen3_tts.prompt import PromptBuilder
from realtime_tts.engine.models.qwen3_tts.sampling import CodeSampling, published_sampling
from realtime_tts.engine.models.qwen3_tts.speaker_encoder import SpeakerEncoder
from realtime_tts.engine.models.qwen3_tts.stages import Code2WavStage, TalkerStage, Turn, WindowedCode2WavStage
from realtime_tts.engine.models.qwen3_tts.talker import Talker, TalkerWeights, load_weights
from realtime_tts.engine.models.qwen3_tts.tokenizer import load_tokenizer
from realtime_tts.engine.models.qwen3_tts.voices import HEARD_TOGETHER, VoiceMaker
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts
from realtime_tts.engine.stage import Model, Stage, StageInput, StageSpec
from realtime_tts.errors import ModelNotUsable

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
WAYS = ("stateful", "windowed")
CHUNK_SIZES = (2, 4, 8, 16, 25)
CPU_SLOTS = 4
"""A CPU is there to be correct (RTF 4.6 to 6 on two cores): a few listeners show all that more would."""
MAX_SLOTS = 256
"""However much memory there is: no published measurement has so many on one GPU."""

CPU_COSTS = PipelineCosts(
    frame=LinearCost(0.31, 0.015), decode=LinearCost(0.08, 0.032), prefill_s=0.5, deviation_s=0.05
)
"""The 0.6B on two cores: Talker 92 ms, predictor 232, Code2Wav 138 to 875 for 1 to 25 frames (measured)."""
CUDA_COSTS = PipelineCosts(frame=LinearCost(0.009, 0.00103), decode=LinearCost(0.004, 0.00012), prefill_s=0.012)
"""An H200 by public measurements, with a decoder that keeps state: `tone.PROFILES`.  Unlearnt within seconds."""
CPU_STREAMS, CUDA_STREAMS = 1, 64
CPU_DECODES, CUDA_DECODES = 4, 16


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options of `build`, checked."""

    device: torch.device
    dtype: torch.dtype
    slots: int | None
    """None: as many as fit."""
    max_len: int
    recall: Recall | None
    """None: whichever is quicker on the device."""
    graphs: bool
    compiled: bool
    windowed: bool
    context_frames: int
    threads: int | None


def wishes(
    *,
    device: str,
    dtype: str,
    slots: int | str | None,
    max_len: int,
    recall: str,
    graphs: bool | str,
    compiled: bool,
    code2wav: str,
    context_frames: int,
    threads: int | None,
) -> Wishes:
    """Raises ModelNotUsable, which names the option that cannot be."""
    place = _device(device)
    _one_of("dtype", dtype, ("auto", *DTYPES))
    _one_of("recall", recall, ("auto", *Recall))
    _one_of("graphs", graphs, ("auto", True, False))
    _one_of("compiled", compiled, (True, False))
    _one_of("code2wav", code2wav, WAYS)
    if slots not in (None, "auto"):
        _at_least("slots", slots, 1)
    _at_least("max_len", max_len, 64)
    _at_least("context_frames", context_frames, 1)
    if threads is not None:
        _at_least("threads", threads, 1)
    numbers = default_dtype(place) if dtype == "auto" else DTYPES[dtype]
    if compiled and place.type == "cpu" and numbers == torch.float32:
        raise ModelNotUsable("compiled: a CPU's float32 weights lie in a layout that torch.compile cannot read")
    return Wishes(
        device=place,
        dtype=numbers,
        slots=slots if isinstance(slots, int) else None,
        max_len=max_len,
        recall=None if recall == "auto" else Recall(recall),
        graphs=place.type == "cuda" if graphs == "auto" else bool(graphs),
        compiled=compiled,
        windowed=code2wav == "windowed",
        context_frames=context_frames,
        threads=threads,
    )


def load(directory: Path, info: ModelInfo, wishes: Wishes, progress: Callable[[str], None]) -> Model:
    """Loads everything, and runs a word through it.  Raises ModelNotUsable."""
    if wishes.threads is not None:
        torch.set_num_threads(wishes.threads)
    progress(f"loading {info.name} onto {wishes.device}")
    config = read_config(directory)
    codec = read_json(directory / CODEC_DIRECTORY / "config.json", CodecConfig)
    _check_fit(config, codec)
    published, max_new_tokens = _published(directory)
    tokenizer = load_tokenizer(directory, config)
    weights, speaker = load_talker(directory, config, wishes.device, wishes.dtype, compiled=wishes.compiled)
    decoder_weights, encoder = load_codec(directory, config, codec, wishes.device)
    slots = wishes.slots or _slots_that_fit(config, codec, wishes)
    if wishes.max_len > config.talker_config.max_position_embeddings:
        raise ModelNotUsable(f"max_len: at most {config.talker_config.max_position_embeddings}, got {wishes.max_len}")
    recall = wishes.recall or _quickest_recall(config, weights, slots, progress)
    talker, decoder = _with_slots(config, codec, weights, decoder_weights, slots, recall, wishes)
    if wishes.graphs:
        talker.capture(published, progress)
        if not wishes.windowed:
            decoder.capture(min(CUDA_DECODES, slots), progress)
    voices = None
    if speaker is not None and encoder is not None:
        together = HEARD_TOGETHER if wishes.device.type == "cuda" else 1
        listener = Code2Wav(codec.decoder_config, decoder_weights, together, wishes.device)
        voices = VoiceMaker(speaker, encoder, listener, VOICE_CACHE_BYTES)
    talker_stage = TalkerStage(
        config,
        talker,
        PromptBuilder(config, tokenizer, weights.embeddings),
        tokenizer,
        published=published,
        max_new_tokens=max_new_tokens,
        voices=voices,
        turn=Turn(wishes.device),
    )
    decoder_stage = _decoder_stage(decoder, wishes)
    if wishes.device.type == "cuda":
        torch.cuda.synchronize(wishes.device)  # the lanes' streams do not wait for the one that loaded
    model = _model(info, talker_stage, decoder_stage, slots, wishes)
    progress(f"{info.name} has {slots} slots of {wishes.max_len} positions")
    _warm_up(model, config)
    return model


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ModelNotUsable(f"device must be auto, cpu, cuda or cuda:N, got {name!r}") from error
    if device.type not in ("cpu", "cuda"):
        raise ModelNotUsable(f"device must be auto, cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cuda" and not (device.index or 0) < torch.cuda.device_count():
        raise ModelNotUsable(f"device {name} is not there; torch sees {torch.cuda.device_count()} GPUs")
    return device


def _one_of(option: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        *others, last = map(str, allowed)
        raise ModelNotUsable(f"{option} must be {', '.join(others)} or {last}, got {value!r}")


def _at_least(option: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ModelNotUsable(f"{option} must be a whole number from {least}, got {value!r}")


def _check_fit(config: ModelConfig, codec: CodecConfig) -> None:
    """The Talker's codes must be those that the codec reads."""
    talker, decoder = config.talker_config, codec.decoder_config
    if decoder.num_quantizers != talker.num_code_groups:
        raise ModelNotUsable(f"the codec reads {decoder.num_quantizers} codes a frame, not {talker.num_code_groups}")
    if decoder.codebook_size < talker.code_predictor_config.vocab_size:
        raise ModelNotUsable(f"the codec knows {decoder.codebook_size} codes, fewer than the Talker makes")
    if decoder.samples_per_frame != SAMPLES_PER_FRAME:
        raise ModelNotUsable(f"the codec makes {decoder.samples_per_frame} samples a frame, not {SAMPLES_PER_FRAME}")


def _published(directory: Path) -> tuple[CodeSampling, int]:
    generation = read_generation_config(directory)
    try:
        return published_sampling(generation), generation.max_new_tokens
    except ValueError as error:
        raise ModelNotUsable(f"{directory / 'generation_config.json'}: {error}") from error


@dataclass(frozen=True, slots=True)
class _SpeakerFile:
    """The part of config.json that the Base model alone has."""

    speaker_encoder_config: SpeakerEncoderConfig


def load_talker(
    directory: Path, config: ModelConfig, device: torch.device, dtype: torch.dtype, *, compiled: bool = False
) -> tuple[TalkerWeights, SpeakerEncoder | None]:
    """The speaker encoder only where recordings are heard.  Raises ModelNotUsable."""
    with Checkpoint(directory, device, dtype) as checkpoint:
        weights = load_weights(checkpoint, config.talker_config, compiled=compiled)
        if config.tts_model_type is not ModelType.BASE:
            return weights, None
        shape = read_json(directory / "config.json", _SpeakerFile).speaker_encoder_config
        if shape.enc_dim != config.talker_config.hidden_size:
            raise ModelNotUsable(f"the speaker encoder makes {shape.enc_dim} numbers, not the Talker's hidden size")
        state = checkpoint.take_all("speaker_encoder.", torch.float32)
        return weights, SpeakerEncoder.from_state(shape, state, device)


def load_codec(
    directory: Path, config: ModelConfig, codec: CodecConfig, device: torch.device
) -> tuple[DecoderWeights, CodecEncoder | None]:
    """The encoder only where recordings are heard.  Raises ModelNotUsable."""
    with Checkpoint(directory / CODEC_DIRECTORY, device, CODEC_DTYPE) as checkpoint:
        state = checkpoint.take_all("decoder.")
        weights = DecoderWeights.take(codec.decoder_config, state)
        refuse_leftovers(state, "decoder")
        encoder = checkpoint.take_all("encoder.") if config.tts_model_type is ModelType.BASE else None
        if encoder is None:
            checkpoint.leave("encoder.")
            return weights, None
        return weights, CodecEncoder.from_state(codec, encoder, device)


def _slots_that_fit(config: ModelConfig, codec: CodecConfig, wishes: Wishes) -> int:
    if wishes.device.type != "cuda":
        return CPU_SLOTS
    free, _total = torch.cuda.mem_get_info(wishes.device)
    slots = slots_that_fit(config, codec.decoder_config, free, wishes.dtype, wishes.max_len)
    if not slots:
        raise ModelNotUsable(
            f"{wishes.device} has {free / 1024**3:.1f} GB left beside the weights, too little for a slot of"
            f" {wishes.max_len} positions: set max_len lower"
        )
    return min(slots, MAX_SLOTS)


def _quickest_recall(
    config: ModelConfig, weights: TalkerWeights, slots: int, progress: Callable[[str], None]
) -> Recall:
    """As measured at half of the slots: a place between one listener alone and all that there is room for."""
    recall, took_s = quickest(config.talker_config, weights.predictor, max(1, slots // 2), MonotonicClock().now_s)
    times = ", ".join(f"{way} {seconds * 1e3:.1f} ms" for way, seconds in took_s.items())
    progress(f"the code predictor's way to recall: {recall} (a frame: {times})")
    return recall


def _with_slots(
    config: ModelConfig,
    codec: CodecConfig,
    weights: TalkerWeights,
    decoder_weights: DecoderWeights,
    slots: int,
    recall: Recall,
    wishes: Wishes,
) -> tuple[Talker, Code2Wav]:
    try:
        talker = Talker(
            config.talker_config,
            weights,
            slots=slots,
            max_len=wishes.max_len,
            text_pad_id=config.tts_pad_token_id,
            recall=recall,
        )
        return talker, Code2Wav(codec.decoder_config, decoder_weights, 1 if wishes.windowed else slots, wishes.device)
    except RuntimeError as error:  # torch has no narrower one for a CPU's memory
        raise ModelNotUsable(f"no memory for {slots} slots of {wishes.max_len} positions: {error}") from error


def _decoder_stage(decoder: Code2Wav, wishes: Wishes) -> Stage:
    turn = Turn(wishes.device)
    return WindowedCode2WavStage(decoder, turn) if wishes.windowed else Code2WavStage(decoder, turn)


def _model(info: ModelInfo, talker: TalkerStage, decoder: Stage, slots: int, wishes: Wishes) -> Model:
    cuda = wishes.device.type == "cuda"
    lanes = ("talker", "code2wav") if cuda else ("cpu", "cpu")
    return Model(
        info=info,
        specs=(
            StageSpec("talker", lanes[0], max_batch=slots, slots=slots),
            StageSpec("code2wav", lanes[1], max_batch=CUDA_DECODES if cuda else CPU_DECODES),
        ),
        stages={"talker": (talker,), "code2wav": (decoder,)},
        chunk_plan=ChunkPlan(CHUNK_SIZES, left_context_frames=wishes.context_frames if wishes.windowed else 0),
        costs=CUDA_COSTS if cuda else CPU_COSTS,
        nominal_streams=CUDA_STREAMS if cuda else CPU_STREAMS,
    )


def _warm_up(model: Model, config: ModelConfig) -> None:
    """A word through both stages, so that the first request finds everything in its place."""
    talker, decoder = model.stage("talker"), model.stage("code2wav")
    base = config.tts_model_type is ModelType.BASE
    request = SynthesisRequest(
        request_id="warm-up",
        stream_id="warm-up",
        text="Hello.",
        voice=model.info.default_voice or "",
        sampling=Wish(seed=0, max_new_tokens=3),
        speaker_embedding=(0.0,) * config.talker_config.hidden_size if base else None,
    )
    try:
        output = talker.run([StageInput(request)])[0]
        if output.error is not None:
            raise ModelNotUsable(f"the model cannot speak: {output.error}") from output.error
        chunk = next(model.chunk_plan.ramp(len(output.values)))
        decoder.run([StageInput(request, output.values, chunk)])
    finally:
        talker.release(request.request_id)
        decoder.release(request.request_id)
