"""Expected prompts and codes of the Talker: those of the reference (qwen-tts 0.1.1) on tiny checkpoints.

Runs in an environment of its own, of which nothing is a dependency of this project:

    pip install torch==2.13.0 transformers==4.57.3 accelerate==1.12.0 soundfile einops numba scipy scikit-learn joblib \
        soxr pooch lazy_loader msgpack audioread decorator
    pip install --no-deps librosa==0.11.0 qwen-tts==0.1.1
    pip download --no-deps dashscope && unzip dashscope*.whl dashscope/resources/qwen.tiktoken
    python -m bench.qwen3_tts_goldens dashscope/resources/qwen.tiktoken

Writes tests/engine/models/qwen3_tts/goldens/.
"""

import base64
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from bench.qwen3_tts_reference import UNUSED_MODULES, provide_empty_modules
from tests.engine.models.qwen3_tts.make_checkpoint import HIDDEN, RECIPES, make_checkpoint

GOLDENS = Path(__file__).parent.parent / "tests/engine/models/qwen3_tts/goldens"
FRAMES = 10
GREEDY = {"do_sample": False, "subtalker_dosample": False}
SAMPLED = {
    "temperature": 0.7,
    "top_k": 30,
    "top_p": 0.8,
    "repetition_penalty": 1.3,
    "subtalker_temperature": 1.1,
    "subtalker_top_k": 0,
    "subtalker_top_p": 0.6,
}


@dataclass(frozen=True, slots=True)
class Case:
    """One request to the reference.  `seed` None is for greedy; `voice` is xvec, icl or None."""

    model: str
    text: str = "hello the world"
    language: str | None = None
    speaker: str | None = None
    instruct: str | None = None
    voice: str | None = None
    text_first: bool = False
    seed: int | None = None
    frames: int = FRAMES
    options: dict[str, Any] = field(default_factory=dict)
    keep_prompt: bool = False


def cases() -> Iterator[Case]:
    for layout in _layouts():
        keep = layout["model"] == "base" or (layout["model"] == "custom_voice" and layout["instruct"] is not None)
        yield Case(**layout, keep_prompt=keep)
        yield Case(**layout, seed=7)
    plain: dict[str, Any] = {"speaker": "vivian", "language": "english"}
    yield Case(**plain, model="custom_voice", seed=8, options=SAMPLED)
    yield Case(**plain, model="custom_voice", seed=9, options={"top_k": 0, "subtalker_dosample": False})
    for seed in (1, 2, 3):
        yield Case(**plain, model="custom_voice_ends", seed=seed, frames=60)
    yield Case(**plain, model="custom_voice_ends", frames=60, options={"repetition_penalty": 1.0})


def _layouts() -> Iterator[dict[str, Any]]:
    voices = [("english", "vivian"), (None, "ryan"), (None, "eric"), ("chinese", "dylan"), ("german", "eric")]
    for text_first in (False, True):
        for language, speaker in voices:
            for instruct in (None, "the user: hello!"):
                how = {"language": language, "speaker": speaker, "instruct": instruct, "text_first": text_first}
                yield {"model": "custom_voice", **how}
        small = {"language": "english", "speaker": "ryan", "instruct": "hello", "text_first": text_first}
        yield {"model": "custom_voice_small", **small}
        for language, instruct in (("german", "hello the world"), (None, "hello"), (None, None)):
            yield {"model": "voice_design", "language": language, "instruct": instruct, "text_first": text_first}
        for voice in ("xvec", "icl"):
            for language in ("english", None):
                yield {"model": "base", "language": language, "voice": voice, "text_first": text_first}
            yield {"model": "base_small", "voice": voice, "text_first": text_first, "text": "héllo 世界, 12!"}
        yield {"model": "base", "voice": "icl", "text_first": text_first, "text": "a text longer than its reference"}


def main(tiktoken: Path) -> None:
    GOLDENS.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(11)
    arrays: dict[str, Any] = {
        "x_vector": random.standard_normal(HIDDEN).astype(np.float32),
        "reference_codes": random.integers(0, 2048, (9, 16)).astype(np.int16),
    }
    listed = []
    with tempfile.TemporaryDirectory() as directory:
        models = {name: _reference(Path(directory) / name, name) for name in RECIPES}
        for index, case in enumerate(cases()):
            codes, prompt, trailing = _speak(models[case.model], case, arrays)
            listed.append({"name": f"{index:02}", **asdict(case)})
            arrays[f"{index:02}/codes"] = codes.astype(np.int16)
            if case.keep_prompt:
                arrays[f"{index:02}/prompt"], arrays[f"{index:02}/trailing"] = prompt, trailing
            print(index, case.model, codes.shape, prompt.shape, trailing.shape)
    np.savez_compressed(GOLDENS / "talker.npz", **arrays)
    (GOLDENS / "talker.json").write_text(json.dumps(listed, indent=0, ensure_ascii=False), "utf-8")
    _record_tokens(tiktoken)


def _reference(directory: Path, name: str) -> Any:
    """The reference's own model with our checkpoint, which must have exactly its keys.  It makes no audio here."""
    make_checkpoint(directory, RECIPES[name])
    from qwen_tts import Qwen3TTSModel
    from qwen_tts.core.models.configuration_qwen3_tts import Qwen3TTSConfig
    from qwen_tts.core.models.modeling_qwen3_tts import Qwen3TTSForConditionalGeneration
    from qwen_tts.core.models.processing_qwen3_tts import Qwen3TTSProcessor
    from transformers import Qwen2TokenizerFast

    config = Qwen3TTSConfig(**json.loads((directory / "config.json").read_text("utf-8")))
    model = Qwen3TTSForConditionalGeneration._from_config(config, attn_implementation="eager").eval()
    tensors: dict[str, torch.Tensor] = {}
    for file in directory.glob("*.safetensors"):
        tensors |= load_file(file)
    model.load_state_dict(tensors, strict=True)
    model.load_speech_tokenizer(_NoCodec())
    processor = Qwen3TTSProcessor(Qwen2TokenizerFast.from_pretrained(directory))
    return Qwen3TTSModel(model, processor, json.loads((directory / "generation_config.json").read_text("utf-8")))


class _NoCodec:
    def decode(self, frames: list[dict[str, Any]]) -> tuple[list[np.ndarray], int]:
        return [np.zeros(1) for _ in frames], 24_000


def _speak(model: Any, case: Case, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The codes (n, 16), and the inputs: prompt (t, hidden) and trailing text (r, hidden)."""
    seen: dict[str, Any] = {}
    whole, inner = model.model.generate, model.model.talker.generate

    def generate(**options: Any) -> Any:
        seen["codes"] = (result := whole(**options))[0][0]
        return result

    def talk(**options: Any) -> Any:
        seen.update(options)
        return inner(**options)

    options = {**(GREEDY if case.seed is None else {}), **case.options, "max_new_tokens": case.frames + 1}
    options["non_streaming_mode"] = case.text_first
    language = case.language or "Auto"
    model.model.generate, model.model.talker.generate = generate, talk
    torch.manual_seed(0 if case.seed is None else case.seed)
    try:
        if model.model.tts_model_type == "custom_voice":
            model.generate_custom_voice(case.text, case.speaker, language, case.instruct, **options)
        elif model.model.tts_model_type == "voice_design":
            model.generate_voice_design(case.text, case.instruct or "", language, **options)
        else:
            voice = [_voice(case, arrays)]
            model.generate_voice_clone(case.text, language, voice_clone_prompt=voice, **options)
    finally:
        model.model.generate, model.model.talker.generate = whole, inner
    prompt, trailing = seen["inputs_embeds"][0], seen["trailing_text_hidden"][0]
    return seen["codes"].numpy(), prompt.numpy(), trailing.numpy()


def _voice(case: Case, arrays: dict[str, np.ndarray]) -> Any:
    from qwen_tts.inference.qwen3_tts_model import VoiceClonePromptItem

    icl = case.voice == "icl"
    return VoiceClonePromptItem(
        ref_code=torch.from_numpy(arrays["reference_codes"].astype(np.int64)) if icl else None,
        ref_spk_embedding=torch.from_numpy(arrays["x_vector"]),
        x_vector_only_mode=not icl,
        icl_mode=icl,
        ref_text="the hello" if icl else None,
    )


TEXTS = (
    "Hello, world!",
    "I'm sure it's 12:45; don't worry — we'll e-mail you.",
    "iPhone and/or McDonald's, NASA, über-cool\nNew line.",
    "  spaces   inside,\ttabs  ",
    "你好，世界！今天天气不错。",
    "今日はいい天気ですね。 안녕하세요?",
    "Ça coûte 3,50 €, n'est-ce pas? Grüße aus Köln.",
    "Привет, как дела? ¿Qué tal, señor?",
    "e\u0301tude and étude 😀👍🏽",
    "https://example.com/a/b?c=d//\n\n",
)
"""Tokenised with the real vocabulary; only the entries that these texts can reach are recorded."""


def _record_tokens(tiktoken: Path) -> None:
    """`tokens.json`: ids of TEXTS with both rules for splitting words, and the required part of the vocabulary."""
    from transformers import AutoTokenizer

    ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in tiktoken.read_bytes().splitlines())}
    reach = "\n".join((*TEXTS, "assistant\n", "user\n")).encode() + "étude".encode()
    part = {token: rank for token, rank in ranks.items() if len(token) == 1 or token in reach}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        vocab, merges = _as_files(ranks, part)
        (directory / "config.json").write_text('{"model_type": "qwen3_tts", "transformers_version": "4.57.3"}')
        (directory / "tokenizer_config.json").write_text('{"tokenizer_class": "Qwen2Tokenizer"}')
        # The reference changes only tokenizers with a large vocabulary, so this one is padded.
        filled = vocab | {f"<filler {n}>": n for n in range(100_001) if n not in set(vocab.values())}
        (directory / "vocab.json").write_text(json.dumps(filled))
        (directory / "merges.txt").write_text("\n".join(merges), "utf-8")
        qwen = AutoTokenizer.from_pretrained(directory, fix_mistral_regex=False)
        mistral = AutoTokenizer.from_pretrained(directory, fix_mistral_regex=True)
        listed = [
            {"text": text, "qwen": qwen(text)["input_ids"], "mistral": mistral(text)["input_ids"]} for text in TEXTS
        ]
    recorded = {"texts": listed, "vocab": vocab, "merges": merges}
    (GOLDENS / "tokens.json").write_text(json.dumps(recorded, ensure_ascii=False, indent=0), "utf-8")


def _as_files(ranks: dict[bytes, int], part: dict[bytes, int]) -> tuple[dict[str, int], list[str]]:
    """vocab.json and merges.txt of `part`: a token's merge is the last that makes it from bytes by the ranks below."""
    from transformers.models.qwen2.tokenization_qwen2 import bytes_to_unicode

    char_of = bytes_to_unicode()

    def readable(token: bytes) -> str:
        return "".join(char_of[byte] for byte in token)

    merges = []
    for token, rank in sorted(part.items(), key=lambda item: item[1]):
        pieces = [bytes([byte]) for byte in token]
        while len(pieces) > 2:
            pairs = [ranks.get(a + b, rank) for a, b in itertools.pairwise(pieces)]
            best = pairs.index(min(pairs))
            pieces[best : best + 2] = [pieces[best] + pieces[best + 1]]
        if len(pieces) == 2:
            merges.append(f"{readable(pieces[0])} {readable(pieces[1])}")
    return {readable(token): rank for token, rank in part.items()}, merges


if __name__ == "__main__":
    provide_empty_modules(*UNUSED_MODULES)
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
