"""Recorder of the reference codec's outputs on seeded weights, for tests/engine/models/qwen3_tts/test_*.py.

Runs in an environment of its own: `pip install torch==2.13.0 transformers==4.57.3 accelerate==1.12.0 soundfile einops
numba scipy scikit-learn joblib soxr pooch lazy_loader msgpack audioread decorator`, then, with `--no-deps`,
`librosa==0.11.0 qwen-tts==0.1.1`.  From the top of this repository: `python bench/qwen3_tts_codec_goldens.py`.
"""

import importlib.machinery
import importlib.util
import sys
import types
import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

FOLDER = Path(__file__).parent.parent / "tests" / "engine" / "models" / "qwen3_tts"
Array = npt.NDArray[np.float32]


def main() -> None:
    stand_in_for("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi", "onnxruntime", "sox")
    make = load_maker()
    codec = reference_codec(make)
    goldens = FOLDER / "goldens_codec"
    goldens.mkdir(exist_ok=True)
    with torch.inference_mode():
        save(goldens / "decoder.npz", decoder(make, codec))
        save(goldens / "encoder.npz", encoder(make, codec))
        save(goldens / "speaker.npz", speaker(make))


def stand_in_for(*names: str) -> None:
    """Empty modules for imports of `qwen_tts` that only its other codec uses."""
    for name in names:
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__path__ = []
        sys.modules.setdefault(name, module)


def load_maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_codec", FOLDER / "make_codec.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reference_codec(make: Any) -> Any:
    from qwen_tts.core import Qwen3TTSTokenizerV2Config, Qwen3TTSTokenizerV2Model

    model = Qwen3TTSTokenizerV2Model(Qwen3TTSTokenizerV2Config(**deepcopy(make.CODEC)))
    model.load_state_dict(make.codec_state(), strict=True)
    return model.eval()


def decoder(make: Any, codec: Any) -> dict[str, npt.NDArray[Any]]:
    """The whole stream at once, and in the reference's windows; in double precision, so only our rounding differs."""
    double = deepcopy(codec.decoder).double()
    codes = torch.from_numpy(make.codes(make.DECODED_FRAMES, make.CODES_SEED).T[None])
    whole = double(codes)[0, 0].float().numpy()
    single = codec.decoder(codes)[0, 0].numpy()
    print(f"whole: rms {np.sqrt(np.mean(whole**2)):.3f}, at the limit {np.mean(np.abs(whole) >= 1):.4f}")
    print(f"the reference's own rounding: {np.abs(single - whole).max() / np.abs(whole).max():.1e} of the peak")
    arrays = {f"whole_{name}": value for name, value in make.digest(whole).items()}
    short = codes[..., : make.WINDOWED_FRAMES]
    for chunk, context in make.WINDOWS:
        wave = double.chunked_decode(short, chunk_size=chunk, left_context_size=context)[0, 0].float().numpy()
        arrays |= {f"windowed_{chunk}_{context}_{name}": value for name, value in make.digest(wave).items()}
    return arrays


def encoder(make: Any, codec: Any) -> dict[str, npt.NDArray[Any]]:
    arrays = {}
    for name, samples in make.recordings().items():
        wave = torch.from_numpy(samples)[None]
        codes = codec.encode(wave, torch.ones_like(wave, dtype=torch.long)).audio_codes[0]
        arrays[name] = codes.numpy().astype(np.int16)
        print(f"{name}: codes {tuple(codes.shape)}, smallest margin {smallest_margin(codec, wave):.1e}")
    return arrays


def smallest_margin(codec: Any, wave: torch.Tensor) -> float:
    """The smallest difference between the distances of the nearest and the second nearest centroid."""
    margins: list[float] = []
    quantizer = codec.encoder.quantizer
    parts = (quantizer.semantic_residual_vector_quantizer, quantizer.acoustic_residual_vector_quantizer)
    books = [layer.codebook for part in parts for layer in part.layers[: codec.encoder_valid_num_quantizers - 1]]
    quantize = type(books[0]).quantize

    def measured(book: Any, hidden: torch.Tensor) -> torch.Tensor:
        near = torch.cdist(hidden[None], book.embed[None])[0].topk(2, largest=False).values
        margins.append(float((near[:, 1] - near[:, 0]).min()))
        chosen: torch.Tensor = quantize(book, hidden)
        return chosen

    for book in books:
        book.quantize = types.MethodType(measured, book)
    codec.encode(wave, torch.ones_like(wave, dtype=torch.long))
    for book in books:
        del book.quantize
    return min(margins)


def speaker(make: Any) -> dict[str, npt.NDArray[Any]]:
    from qwen_tts.core.models.configuration_qwen3_tts import Qwen3TTSSpeakerEncoderConfig
    from qwen_tts.core.models.modeling_qwen3_tts import Qwen3TTSSpeakerEncoder, mel_spectrogram

    model = Qwen3TTSSpeakerEncoder(Qwen3TTSSpeakerEncoderConfig(**make.SPEAKER)).eval()
    model.load_state_dict(make.strip(make.speaker_state(), "speaker_encoder."), strict=True)
    arrays = {}
    for name, samples in make.recordings().items():
        if len(samples) < make.MIN_SPEAKER_SAMPLES:
            continue
        mel = mel_spectrogram(torch.from_numpy(samples)[None], 1024, 128, 24_000, 256, 1024, 0, 12_000)
        arrays[f"{name}_mel"] = mel[0, :, :: make.MEL_STRIDE].numpy()
        arrays[f"{name}_x_vector"] = model(mel.transpose(1, 2))[0].numpy()
        print(f"{name}: x-vector rms {np.sqrt(np.mean(arrays[f'{name}_x_vector'] ** 2)):.3f}")
    return arrays


def save(path: Path, arrays: dict[str, npt.NDArray[Any]]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as file:  # without a date, for reproducible bytes
                np.lib.format.write_array(file, array)
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
