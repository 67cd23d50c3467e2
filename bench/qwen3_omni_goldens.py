"""Expected values of Qwen3-Omni: those of transformers on a tiny checkpoint, for tests/engine/models/qwen3_omni.

Runs in an environment of its own, of which nothing is a dependency of this project:

    pip install torch==2.13.0 transformers==5.24.0 safetensors pillow
    python -m bench.qwen3_omni_goldens

Writes tests/engine/models/qwen3_omni/goldens/omni.npz.  The images need no torchvision, since the image processor on
Pillow is used.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.engine.models.qwen3_omni import inputs
from tests.engine.models.qwen3_omni.make_checkpoint import make_checkpoint

GOLDENS = Path(__file__).parent.parent / "tests/engine/models/qwen3_omni/goldens"
TOKENS, CODES = 10, 12
SPEAKER = "Ethan"
Arrays = dict[str, np.ndarray]


def main() -> None:
    from transformers import AutoTokenizer, Qwen3OmniMoeForConditionalGeneration

    GOLDENS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        make_checkpoint(Path(name))
        model, loaded = Qwen3OmniMoeForConditionalGeneration.from_pretrained(
            name, dtype=torch.float32, output_loading_info=True
        )
        assert not any(loaded.values()), f"the checkpoint does not have exactly the reference's tensors: {loaded}"
        tokenizer = AutoTokenizer.from_pretrained(name)
    # transformers 5.24.0 reads this of the Talker for audio beside an image, and only the Thinker has it.
    model.config.talker_config.audio_config = model.config.thinker_config.audio_config
    reference = Reference(model.eval(), tokenizer)
    arrays: Arrays = {}
    for case, conversation in inputs.CONVERSATIONS.items():
        arrays |= {f"{case}/{key}": value for key, value in reference.answer(conversation).items()}
        margins = np.sort(arrays[f"{case}/logits"], -1)
        print(case, {key: arrays[f"{case}/{key}"].shape for key in ("ids", "tokens", "codes", "wav")})
        print(f"  least margin of a token {(margins[:, -1] - margins[:, -2]).min():.3f}")
    for number, seconds in enumerate(inputs.CLIPS_S):
        mel, embeddings = reference.audio(inputs.speech(seconds, number))
        arrays |= {f"audio_{number}/mel_mean": mel.mean(0), f"audio_{number}/embeddings": embeddings}
    for number, (height, width) in enumerate(inputs.SIZES):
        arrays |= {f"image_{number}/{k}": v for k, v in reference.image(inputs.picture(height, width, number)).items()}
    np.savez_compressed(GOLDENS / "omni.npz", **arrays)  # type: ignore[arg-type]
    print(len(arrays), "arrays,", (GOLDENS / "omni.npz").stat().st_size, "bytes")


class Reference:
    """The reference's model, with its processors of audio and images."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        from transformers import WhisperFeatureExtractor
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        self._model = model
        self._tokenizer = tokenizer
        self._mel = WhisperFeatureExtractor(
            feature_size=128,
            sampling_rate=16000,
            hop_length=160,
            n_fft=400,
            chunk_length=300,
            return_attention_mask=True,
        )
        half = [0.5] * 3
        self._patches = Qwen2VLImageProcessorPil(
            patch_size=16,
            merge_size=2,
            temporal_patch_size=2,
            min_pixels=3136,
            max_pixels=12845056,
            image_mean=half,
            image_std=half,
        )

    def answer(self, conversation: Sequence[Mapping[str, Any]]) -> Arrays:
        """The answer to a conversation, and what passes between the parts on the way."""
        prompt, found = self._prompt(conversation)
        generate_text, generate_codes = self._model.thinker.generate, self._model.talker.generate

        def think(**options: Any) -> Any:
            result = generate_text(output_logits=True, **options)
            layer = self._model.config.talker_config.accept_hidden_layer
            found["logits"] = torch.cat(result.logits).numpy()
            found["rows"] = torch.cat([each[layer] for each in result.hidden_states], 1)[0].numpy()
            return result

        def talk(**options: Any) -> Any:
            found["talker_ids"] = options["talker_input_ids"][0].numpy()
            found["talker_inputs"] = options["inputs_embeds"][0].numpy()
            found["trailing"] = options["trailing_text_hidden"][0].numpy()
            result = generate_codes(**options)
            found["prefill"] = result.hidden_states[0][0][-1][0].numpy()
            frames = [each[-1] for each in result.hidden_states if each[-1] is not None]
            found["codes"] = torch.stack(frames, 1)[0].numpy().astype(np.int16)
            return result

        self._model.thinker.generate, self._model.talker.generate = think, talk
        try:
            tokens, wav = self._model.generate(
                **prompt,
                speaker=SPEAKER,
                return_audio=True,
                thinker_max_new_tokens=TOKENS,
                thinker_do_sample=False,
                thinker_eos_token_id=self._model.config.im_end_token_id,
                talker_max_new_tokens=CODES,
                talker_do_sample=False,
            )
        finally:
            self._model.thinker.generate, self._model.talker.generate = generate_text, generate_codes
        length = prompt["input_ids"].shape[1]
        config = self._model.config.thinker_config
        pads = torch.isin(prompt["input_ids"][0], torch.tensor([config.audio_token_id, config.image_token_id]))
        found["rows"] = found["rows"][:length][pads.numpy()]
        found |= {"ids": prompt["input_ids"][0].numpy(), "tokens": tokens[0, length:].numpy()}
        return found | {"wav": wav.reshape(-1).numpy()}

    def audio(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mel (128, frames), and embeddings (tokens, hidden)."""
        features, frames = self._features([samples])
        mel = features[0, :, : frames[0]]
        tower = self._model.thinker.model.audio_tower
        with torch.no_grad():
            encoded = tower(mel, feature_lens=torch.tensor([int(frames[0])])).last_hidden_state
        return mel.numpy(), encoded.numpy()

    def image(self, pixels: np.ndarray) -> Arrays:
        patches = self._images([pixels])
        with torch.no_grad():
            encoded = self._model.thinker.model.visual(patches["pixel_values"], grid_thw=patches["image_grid_thw"])
        return {
            "patches": patches["pixel_values"].numpy().reshape(-1, 3, 2, 256)[:, :, 0].astype(np.float32),
            "grid": patches["image_grid_thw"][0].numpy(),
            "embeddings": encoded.pooler_output.numpy(),
            "deepstack": torch.stack(encoded.deepstack_features).numpy(),
        }

    def _features(self, clips: Sequence[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
        made = self._mel(
            list(clips),
            sampling_rate=16000,
            padding=True,
            truncation=False,
            return_attention_mask=True,
            return_tensors="pt",
        )
        return made["input_features"], made["attention_mask"].sum(1)

    def _images(self, images: Sequence[np.ndarray]) -> Any:
        from PIL import Image

        return self._patches([Image.fromarray(pixels) for pixels in images], return_tensors="pt")

    def _prompt(self, conversation: Sequence[Mapping[str, Any]]) -> tuple[dict[str, torch.Tensor], Arrays]:
        """The inputs of `generate`, with a pad for each embedding."""
        parts = [part for message in conversation for part in message["content"]]
        prompt: dict[str, torch.Tensor] = {}
        rendered = self._tokenizer.apply_chat_template(list(conversation), add_generation_prompt=True, tokenize=False)
        if clips := [part["samples"] for part in parts if part["type"] == "audio"]:
            features, frames = self._features(clips)
            mask = torch.arange(features.shape[2]) < frames[:, None]
            prompt |= {"input_features": features, "feature_attention_mask": mask.long()}
            rendered = _repeat(rendered, "<|audio_pad|>", [_audio_tokens(int(each)) for each in frames])
        if images := [part["pixels"] for part in parts if part["type"] == "image"]:
            patches = self._images(images)
            prompt |= {"pixel_values": patches["pixel_values"], "image_grid_thw": patches["image_grid_thw"]}
            counts = [int(grid.prod()) // 4 for grid in patches["image_grid_thw"]]
            rendered = _repeat(rendered, "<|image_pad|>", counts)
        ids = torch.tensor([self._tokenizer.encode(rendered, add_special_tokens=False)])
        return prompt | {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, {}


def _repeat(text: str, pad: str, counts: Sequence[int]) -> str:
    """The text with each pad repeated."""
    first, *others = text.split(pad)
    return first + "".join(pad * count + other for count, other in zip(counts, others, strict=True))


def _audio_tokens(mel_frames: int) -> int:
    """The embeddings of a clip: 13 for each second, and an eighth of the rest, rounded up at each halving."""
    seconds, rest = divmod(mel_frames, 100)
    for _ in range(3):
        rest = (rest + 1) // 2
    return 13 * seconds + rest


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
