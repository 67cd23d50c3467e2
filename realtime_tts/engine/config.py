"""What an operator may set about the engine.  The defaults need no tuning."""

from dataclasses import dataclass

from realtime_tts.engine.scheduling.policy import SCHEDULERS


@dataclass(frozen=True, slots=True)
class EngineConfig:
    scheduler: str = "deadline"
    """Scheduling policy.  round_robin, policy_c, bounded_window and edf_only are for comparison."""
    max_wait_s: float | None = 0.5
    """Seconds that a new listener may wait for capacity; if the wait would be longer, the request is refused at once.
    -1 never refuses."""
    max_requests: int = 1024
    """Requests held at once, speaking and waiting, whatever the scheduler; one more is refused as `overloaded`."""
    max_unrouted_s: float = 10.0
    """Sound of one request that may wait to be sent: a client who does not read stops its own generation."""
    first_audio_target_s: float = 0.25
    """An unstarted listener's deadline: this long after its first sentence arrived."""
    stage_timeout_s: float = 30.0
    """A batch that takes longer is given up: its lane counts as stuck until it comes back."""

    def __post_init__(self) -> None:
        if self.scheduler not in SCHEDULERS:
            raise ValueError(f"scheduler must be one of {', '.join(SCHEDULERS)}, got {self.scheduler!r}")
        if self.max_wait_s is not None and self.max_wait_s < 0:
            raise ValueError(f"max_wait_s cannot be negative, got {self.max_wait_s}")
        if self.max_requests < 1:
            raise ValueError(f"max_requests must be at least 1, got {self.max_requests}")
        if self.first_audio_target_s < 0:
            raise ValueError(f"first_audio_target_s cannot be negative, got {self.first_audio_target_s}")
        if self.max_unrouted_s <= 0 or self.stage_timeout_s <= 0:
            raise ValueError("max_unrouted_s and stage_timeout_s must be positive")
