"""The tensors of a published directory, one safetensors file or several: each is taken once, and none is left over."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, cast

import torch
from safetensors import SafetensorError, safe_open

from realtime_tts.engine.models.qwen3_tts.config import read_json
from realtime_tts.errors import ModelNotUsable

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_NAMED = 5
"""So many tensors are named in an error, and the others counted."""


@dataclass(frozen=True, slots=True)
class _Index:
    """The index file of a checkpoint in several files."""

    weight_map: dict[str, str]
    """The file that each tensor is in."""


class _File(Protocol):
    """What we use of an open safetensors file, whose own types are not told."""

    def keys(self) -> list[str]: ...

    def get_slice(self, name: str) -> "_Slice": ...

    def get_tensor(self, name: str) -> torch.Tensor: ...


class _Slice(Protocol):
    def get_shape(self) -> list[int]: ...


def default_dtype(device: torch.device) -> torch.dtype:
    """What the Talker runs in unless told otherwise: on a GPU as published, where it can, and exact elsewhere."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if _has_bfloat16(device) else torch.float16


def _has_bfloat16(device: torch.device) -> bool:
    """GPUs before Ampere only emulate it."""
    if not torch.cuda.is_available():
        return True  # nothing will run: what a GPU of today would have
    major, _minor = torch.cuda.get_device_capability(device)
    return major >= 8


class Checkpoint:
    """Reads tensors by name, onto `device` and in `dtype`.

    Used as a context: at its end every tensor must have been taken, so that no part of a model is ignored unseen.
    Raises ModelNotUsable, which names the file or the tensor.
    """

    def __init__(self, directory: Path, device: torch.device, dtype: torch.dtype) -> None:
        self._directory = directory
        self._device = device
        self._dtype = dtype
        names, indexed = _files(directory)
        self._files = {name: _opened(directory / name) for name in names}
        self._file_of: dict[str, str] = {}
        for name, file in self._files.items():
            for tensor in file.keys():  # noqa: SIM118 - it is not a dict
                if tensor in self._file_of:
                    raise ModelNotUsable(f"tensor {tensor} is in {self._file_of[tensor]} and {name} of {directory}")
                self._file_of[tensor] = name
        if indexed is not None and (wrong := {key for key, _ in indexed.items() ^ self._file_of.items()}):
            raise ModelNotUsable(f"{directory / INDEX} and its files differ on {_some(wrong)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.clear()
        if kind is None and self._file_of:
            raise ModelNotUsable(
                f"{self._directory} holds tensors that this model has no use for: {_some(self._file_of)}"
            )

    def __contains__(self, name: str) -> bool:
        """Whether the tensor is there and not yet taken."""
        return name in self._file_of

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> torch.Tensor:
        """The tensor `name`, which must have this shape; in `dtype` where it is not to have the checkpoint's."""
        if name not in self._file_of:
            raise ModelNotUsable(f"{self._directory} has no tensor {name} (or it was taken twice)")
        found = self._shape(name)
        file = self._file_of.pop(name)
        if found != shape:
            raise ModelNotUsable(f"tensor {name} in {self._directory / file} has shape {found}, not {shape}")
        try:
            tensor = self._files[file].get_tensor(name)
        except SafetensorError as error:
            raise ModelNotUsable(f"tensor {name} in {self._directory / file} cannot be read: {error}") from error
        if not tensor.is_floating_point():
            raise ModelNotUsable(f"tensor {name} in {self._directory / file} is of {tensor.dtype}, not of a float type")
        return tensor.to(device=self._device, dtype=dtype or self._dtype)

    def take_all(self, prefix: str, dtype: torch.dtype | None = None) -> dict[str, torch.Tensor]:
        """Every tensor whose name starts with `prefix`, without it: for a part that checks its own shapes."""
        shapes = {name: self._shape(name) for name in self._file_of if name.startswith(prefix)}
        return {name.removeprefix(prefix): self.take(name, shape, dtype) for name, shape in shapes.items()}

    def leave(self, prefix: str) -> None:
        """Passes over every tensor whose name starts with `prefix`: a part that is known, and of no use here."""
        for name in [name for name in self._file_of if name.startswith(prefix)]:
            del self._file_of[name]

    def count(self, prefix: str) -> int:
        """The numbers in all tensors not yet taken whose names start with `prefix`, by the files' headers alone."""
        return sum(prod(self._shape(name)) for name in self._file_of if name.startswith(prefix))

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._files[self._file_of[name]].get_slice(name).get_shape())


def _files(directory: Path) -> tuple[tuple[str, ...], dict[str, str] | None]:
    """The files that hold tensors, and what the index says of them where there is one."""
    if (directory / SINGLE).exists():
        return (SINGLE,), None
    if not (directory / INDEX).exists():
        raise ModelNotUsable(f"{directory} holds neither {SINGLE} nor {INDEX}")
    indexed = read_json(directory / INDEX, _Index).weight_map
    if bad := [name for name in indexed.values() if Path(name).name != name]:
        raise ModelNotUsable(f"{directory / INDEX} points out of its directory: {_some(bad)}")
    return tuple(sorted(set(indexed.values()))), indexed


def _opened(path: Path) -> _File:
    try:
        return cast(_File, safe_open(path, framework="pt", device="cpu"))
    except (OSError, SafetensorError) as error:
        raise ModelNotUsable(f"{path} cannot be read as safetensors: {error}") from error


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - _NAMED
    return ", ".join(ordered[:_NAMED]) + (f" and {more} more" if more > 0 else "")
