"""Expected outputs of the codec: those of the reference with seeded weights, for tests/engine/models/qwen3_tts.

Runs in an environment of its own: `pip install torch==2.13.0 transformers==4.57.3 accelerate==1.12.0 soundfile einops
numba scipy scikit-learn joblib soxr pooch lazy_loader msgpack audioread decorator`, then, with `--no-deps`,
`librosa==0.11.0 qwen-tts==0.1.1`.  From the root of this repository: `python -m bench.qwen3_tts_codec_goldens`.
"""

import types
import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bench.qwen3_tts_reference import UNUSED_MODULES, provide_empty_modules
from tests.engine.models.qwen3_tts import make_codec as make

GOLDENS = Path(__file__).parent.parent / "tests" / "engine" / "models" / "qwen3_tts" / "goldens_codec"


def main() -> None:
    provide_empty_modules(*UNUSED_MODULES)
    codec = reference_codec()
    GOLDENS.mkdir(exist_ok=True)
    with torch.inference_mode():
        save(GOLDENS / "decoder.npz", decoder(codec))
        save(GOLDENS / "encoder.npz", encoder(codec))
        save(GOLDENS / "speaker.npz", speaker())


def reference_codec() -> Any:
    from qwen_tts.core import Qwen3TTSTokenizerV2Config, Qwen3TTSTokenizerV2Model

    model = Qwen3TTSTokenizerV2Model(Qwen3TTSTokenizerV2Config(**deepcopy(make.CODEC)))
    model.load_state_dict(make.codec_state(), strict=True)
    return model.eval()


def decoder(codec: Any) -> dict[str, npt.NDArray[Any]]:
    """The whole stream at once, and with the reference's windows; in double precision, without its rounding."""
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


def encoder(codec: Any) -> dict[str, npt.NDArray[Any]]:
    arrays = {}
    for name, samples in make.recordings().items():
        wave = torch.from_numpy(samples)[None]
        codes = codec.encode(wave, torch.ones_like(wave, dtype=torch.long)).audio_codes[0]
        arrays[name] = codes.numpy().astype(np.int16)
        print(f"{name}: codes {tuple(codes.shape)}, smallest margin {smallest_margin(codec, wave):.1e}")
    return arrays


def smallest_margin(codec: Any, wave: torch.Tensor) -> float:
    """The smallest distance between the nearest and the second nearest centroid: rounding must stay below it."""
    margins: list[float] = []
    quantizer = codec.encoder.quantizer
    parts = (quantizer.semantic_residual_vector_quantizer, quantizer.acoustic_residual_vector_quantizer)
    books = [layer.codebook for part in parts for layer in part.layers[: codec.encoder_valid_num_quantizers - 1]]
    quantize = type(books[0]).quantize

    def quantize_and_measure(book: Any, hidden: torch.Tensor) -> torch.Tensor:
        near = torch.cdist(hidden[None], book.embed[None])[0].topk(2, largest=False).values
        margins.append(float((near[:, 1] - near[:, 0]).min()))
        chosen: torch.Tensor = quantize(book, hidden)
        return chosen

    for book in books:
        book.quantize = types.MethodType(quantize_and_measure, book)
    codec.encode(wave, torch.ones_like(wave, dtype=torch.long))
    for book in books:
        del book.quantize
    return min(margins)


def speaker() -> dict[str, npt.NDArray[Any]]:
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
            # Without a date, so that the bytes are reproducible.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as file:
                np.lib.format.write_array(file, array)
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
