"""Engine settings for operators.  The defaults need no tuning."""

from dataclasses import dataclass

from realtime_tts.engine.scheduling.policy import SCHEDULERS


@dataclass(frozen=True, slots=True)
class EngineConfig:
    scheduler: str = "deadline"
    """Scheduling policy.  round_robin, policy_c, bounded_window and edf_only are for comparison."""
    max_wait_s: float | None = 0.5
    """Seconds that a new listener may wait for capacity; if the wait would be longer, the request is refused at once.
    -1 never refuses."""
    queue_s: float = 20.0
    """Seconds that a plain HTTP request may wait for capacity, behind all live listeners; then it is refused with
    status 503.  One with `stream: true` or `stream_format: sse` is live, and follows max_wait_s."""
    max_queued: int = 64
    """Limit of plain HTTP requests that wait for capacity; one more is refused at once.  0: none waits."""
    max_requests: int = 1024
    """Requests in the engine at once, running and waiting, with any scheduler; one more is refused as `overloaded`."""
    max_unsent_s: float = 10.0
    """Limit of a request's unsent audio: beyond it, generation for a client that does not read stops."""
    first_audio_target_s: float = 0.25
    """The deadline of a listener without audio: this long after its first sentence arrived."""
    stage_timeout_s: float = 30.0
    """A batch that takes longer fails its requests: its lane counts as stuck until the batch returns."""

    def __post_init__(self) -> None:
        if self.scheduler not in SCHEDULERS:
            raise ValueError(f"scheduler must be one of {', '.join(SCHEDULERS)}, got {self.scheduler!r}")
        if self.max_wait_s is not None and self.max_wait_s < 0:
            raise ValueError(f"max_wait_s cannot be negative, got {self.max_wait_s}")
        if self.queue_s < 0 or self.max_queued < 0:
            raise ValueError("queue_s and max_queued cannot be negative")
        if self.max_requests < 1:
            raise ValueError(f"max_requests must be at least 1, got {self.max_requests}")
        if self.first_audio_target_s < 0:
            raise ValueError(f"first_audio_target_s cannot be negative, got {self.first_audio_target_s}")
        if self.max_unsent_s <= 0 or self.stage_timeout_s <= 0:
            raise ValueError("max_unsent_s and stage_timeout_s must be positive")
