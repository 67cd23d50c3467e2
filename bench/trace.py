"""Arrival traces of load tests, so that several servers or policies receive the same requests.

A trace is a JSON list, ordered by time:

    [{"at_s": 0.31, "text": "The kettle is boiling in the kitchen."},
     {"at_s": 1.7, "text": "Your parcel is waiting.", "session": "u3"}]

`at_s` is the *intended* time of the request, in seconds from the start of the run: delays count from it, even if the
request is sent later.  `text` is one utterance, of one or several sentences.  Arrivals with the same `session` belong
to one listener: they share a connection, and each waits until the previous one has been sent.  An arrival without a
session is a new listener.

Pure functions, for the live load test and the simulator.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import msgspec

PickText = Callable[[Random], str]
"""Draws the text of one request, such as `bench.texts.pick_text`."""


@dataclass(frozen=True, slots=True)
class Arrival:
    at_s: float
    text: str
    session: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.at_s < float("inf"):
            raise ValueError(f"a request cannot arrive at {self.at_s} s")
        if not self.text.strip():
            raise ValueError(f"the request at {self.at_s} s has no text")


def poisson(rate_hz: float, duration_s: float, rng: Random, texts: PickText) -> list[Arrival]:
    """Independent arrivals, `rate_hz` per second on average: many people who do not coordinate."""
    if rate_hz <= 0:
        raise ValueError(f"the rate must be positive, got {rate_hz}")
    arrivals = []
    at_s = rng.expovariate(rate_hz)
    while at_s < duration_s:
        arrivals.append(Arrival(at_s, texts(rng)))
        at_s += rng.expovariate(rate_hz)
    return arrivals


def bursts(size: int, every_s: float, duration_s: float, rng: Random, texts: PickText) -> list[Arrival]:
    """`size` simultaneous arrivals every `every_s` seconds, the first after one interval."""
    if size < 1 or every_s <= 0:
        raise ValueError(f"a burst needs a size and an interval, got {size} every {every_s} s")
    count = int(duration_s / every_s)
    moments_s = [number * every_s for number in range(1, count + 1) if number * every_s < duration_s]
    return [Arrival(at_s, texts(rng)) for at_s in moments_s for _ in range(size)]


def merged(*traces: Iterable[Arrival]) -> list[Arrival]:
    """Several traces as one, ordered by time."""
    return sorted((arrival for trace in traces for arrival in trace), key=lambda arrival: arrival.at_s)


def dumps(arrivals: Sequence[Arrival]) -> str:
    """A trace as JSON, one arrival per line."""
    lines = (msgspec.json.encode(_fields(arrival)).decode() for arrival in arrivals)
    return "[" + ",\n ".join(lines) + "]\n"


def loads(text: str) -> list[Arrival]:
    """A trace from JSON.  Raises ValueError if it is invalid or not ordered by time."""
    arrivals = msgspec.json.decode(text, type=list[Arrival])
    if any(later.at_s < earlier.at_s for earlier, later in pairwise(arrivals)):
        raise ValueError("the arrivals of a trace must be ordered by time")
    return arrivals


def _fields(arrival: Arrival) -> dict[str, float | str]:
    fields: dict[str, float | str] = {"at_s": round(arrival.at_s, 6), "text": arrival.text}
    return fields if arrival.session is None else fields | {"session": arrival.session}
