"""Tensors of a published directory, in one or several safetensors files: each is read once, and all must be read."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, cast

import torch
from safetensors import SafetensorError, safe_open

from realtime_tts.engine.models.qwen3.config import read_json
from realtime_tts.errors import ModelNotUsable

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_LISTED = 10
"""The number of tensors that an error names; the others are counted."""


@dataclass(frozen=True, slots=True)
class _Index:
    """The index file of a checkpoint in several files."""

    weight_map: dict[str, str]
    """The file of each tensor."""


class _File(Protocol):
    """The part of an open safetensors file that is used here; the package has no types."""

    def keys(self) -> list[str]: ...

    def get_slice(self, name: str) -> "_Slice": ...

    def get_tensor(self, name: str) -> torch.Tensor: ...


class _Slice(Protocol):
    def get_shape(self) -> list[int]: ...


def default_dtype(device: torch.device) -> torch.dtype:
    """The Talker's dtype without the option: as published on a GPU that supports it, and float32 on a CPU."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if _has_bfloat16(device) else torch.float16


def _has_bfloat16(device: torch.device) -> bool:
    """GPUs before Ampere only emulate it."""
    if not torch.cuda.is_available():
        return True  # nothing will run: the answer for a current GPU
    major, _minor = torch.cuda.get_device_capability(device)
    return major >= 8


class Checkpoint:
    """Reads tensors by name, onto `device` and in `dtype`.

    As a context manager it requires on exit that every tensor was read, so that no part of a model is silently ignored.
    Raises ModelNotUsable, which names the file or the tensor.  On the device `meta`, which has shapes without values,
    nothing is read but the headers, and missing tensors are named together on exit.

    `progress` receives a line for each file that is begun.
    """

    def __init__(
        self,
        directory: Path,
        device: torch.device,
        dtype: torch.dtype,
        progress: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._directory = directory
        self._progress = progress
        self._begun: set[str] = set()
        self._missing: list[str] = []
        self._device = device
        self._dtype = dtype
        names, indexed = _files(directory)
        self._files = {name: _open(directory / name) for name in names}
        self._file_of: dict[str, str] = {}
        for name, file in self._files.items():
            for tensor in file.keys():  # noqa: SIM118 - it is not a dict
                if tensor in self._file_of:
                    raise ModelNotUsable(f"tensor {tensor} is in {self._file_of[tensor]} and {name} of {directory}")
                self._file_of[tensor] = name
        if indexed is not None and (wrong := {key for key, _ in indexed.items() ^ self._file_of.items()}):
            raise ModelNotUsable(f"{directory / INDEX} and its files differ on {_listed(wrong)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.clear()
        wrong = []
        if self._missing:
            wrong.append(f"has no tensor{'s' * (len(self._missing) > 1)} {_listed(self._missing)}")
        if self._file_of:
            wrong.append(f"has tensors that this model does not use: {_listed(self._file_of)}")
        if kind is None and wrong:
            raise ModelNotUsable(f"{self._directory} {', and '.join(wrong)}")

    def on(self, device: torch.device) -> "Checkpoint":
        """The same checkpoint, whose tensors are read onto another device."""
        other = copy.copy(self)
        other._device = device
        return other

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> torch.Tensor:
        """The tensor `name`, which must have this shape, in the dtype of the checkpoint unless one is given."""
        return self._load(name, shape).to(device=self._device, dtype=dtype or self._dtype)

    def read_into(self, name: str, target: torch.Tensor) -> None:
        """Copies the tensor `name` to `target`, whose shape it must have: a part of a larger tensor."""
        target.copy_(self._load(name, tuple(target.shape)))

    def _load(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        if name not in self._file_of:
            if self._device.type == "meta":
                self._missing.append(name)
                return torch.empty(shape, device=self._device)
            raise ModelNotUsable(f"{self._directory} has no tensor {name} (or it was read twice)")
        found = self._shape(name)
        file = self._file_of.pop(name)
        if file not in self._begun:
            self._begun.add(file)
            self._progress(f"reading {file} ({len(self._begun)} of {len(self._files)})")
        if found != shape:
            raise ModelNotUsable(f"tensor {name} in {self._directory / file} has shape {found}, not {shape}")
        try:
            tensor = self._files[file].get_tensor(name)
        except SafetensorError as error:
            raise ModelNotUsable(f"tensor {name} in {self._directory / file} cannot be read: {error}") from error
        if not tensor.is_floating_point():
            raise ModelNotUsable(f"tensor {name} in {self._directory / file} is of {tensor.dtype}, not of a float type")
        return tensor

    def read_all(self, prefix: str, dtype: torch.dtype | None = None) -> dict[str, torch.Tensor]:
        """All tensors under `prefix`, by their names without it: for a part that checks its own shapes."""
        shapes = {name: self._shape(name) for name in self._file_of if name.startswith(prefix)}
        found = {name.removeprefix(prefix): self.read(name, shape, dtype) for name, shape in shapes.items()}
        return MetaState(found, prefix, self._missing) if self._device.type == "meta" else found

    def skip_all(self, prefix: str) -> None:
        """Ignores all tensors under `prefix`: a part that is known and not needed."""
        for name in [name for name in self._file_of if name.startswith(prefix)]:
            del self._file_of[name]

    def count_values(self, prefix: str) -> int:
        """The number of values in all unread tensors under `prefix`, from the files' headers."""
        return sum(prod(self._shape(name)) for name in self._file_of if name.startswith(prefix))

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._files[self._file_of[name]].get_slice(name).get_shape())


class MetaState(dict[str, torch.Tensor]):
    """Tensors without values.  Missing ones are noted, so that an error can name them together."""

    def __init__(self, tensors: dict[str, torch.Tensor], prefix: str, missing: list[str]) -> None:
        super().__init__(tensors)
        self._prefix = prefix
        self._missing_names = missing

    def missing(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        self._missing_names.append(f"{self._prefix}{name}")
        return torch.empty(shape, device="meta")


def _files(directory: Path) -> tuple[tuple[str, ...], dict[str, str] | None]:
    """The files that contain tensors, and the entries of the index if there is one."""
    if (directory / SINGLE).exists():
        return (SINGLE,), None
    if not (directory / INDEX).exists():
        raise ModelNotUsable(f"{directory} contains neither {SINGLE} nor {INDEX}")
    indexed = read_json(directory / INDEX, _Index).weight_map
    if bad := [name for name in indexed.values() if Path(name).name != name]:
        raise ModelNotUsable(f"{directory / INDEX} names files outside of its directory: {_listed(bad)}")
    return tuple(sorted(set(indexed.values()))), indexed


def _open(path: Path) -> _File:
    try:
        return cast(_File, safe_open(path, framework="pt", device="cpu"))
    except (OSError, SafetensorError) as error:
        raise ModelNotUsable(f"{path} cannot be read as safetensors: {error}") from error


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - _LISTED
    return ", ".join(ordered[:_LISTED]) + (f" and {more} more" if more > 0 else "")
