"""Fuzz targets with random data; atheris itself is run by hand."""

from random import Random

import pytest

from bench import fuzz


class RandomData:
    """The part of atheris's FuzzedDataProvider that the targets use, without guidance."""

    def __init__(self, seed: int, size: int = 200) -> None:
        self._rng = Random(seed)
        self._left = size

    def remaining_bytes(self) -> int:
        return max(0, self._left)

    def _consume(self, count: int) -> int:
        self._left -= count
        return count

    def ConsumeBool(self) -> bool:  # noqa: N802
        return bool(self.ConsumeIntInRange(0, 1))

    def ConsumeIntInRange(self, low: int, high: int) -> int:  # noqa: N802
        self._consume(1)
        return self._rng.randint(low, high)

    def ConsumeBytes(self, count: int) -> bytes:  # noqa: N802
        return self._rng.randbytes(self._consume(min(count, 100)))

    def ConsumeUnicode(self, count: int) -> str:  # noqa: N802
        alphabet = "ab AB.,!?*_`[]()<>&#\n\t 1。「」😀\u200d\ud83d\ude00é"
        return "".join(self._rng.choices(alphabet, k=self._consume(self._rng.randint(0, min(count, 100)))))

    def ConsumeUnicodeNoSurrogates(self, count: int) -> str:  # noqa: N802
        return self.ConsumeUnicode(count).encode("utf-8", "replace").decode()


def test_every_target_passes_with_random_data() -> None:
    for target in fuzz.TARGETS.values():
        for seed in range(100):
            target(RandomData(seed))


def test_a_target_fails_when_a_property_is_violated(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong_sentences(slices: list[str], *_: object) -> list[tuple[str, tuple[int, int]]]:
        return [(piece, (0, len(piece))) for piece in slices]

    monkeypatch.setattr(fuzz, "_sentences", wrong_sentences)
    seeds = [seed for seed in range(50) if len(RandomData(seed).ConsumeUnicode(50)) > 5]
    with pytest.raises(AssertionError, match="differs"):
        list(map(fuzz.text, map(RandomData, seeds)))


def test_every_message_is_a_seed() -> None:
    assert len(fuzz.EXAMPLES["messages"]) == len(fuzz.KINDS)
