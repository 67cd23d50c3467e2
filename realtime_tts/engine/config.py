"""What an operator may set about the engine.  The defaults need no tuning."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineConfig:
    max_requests: int = 256
    """Requests held at once, speaking and waiting; one more is refused as `overloaded`."""
    first_audio_target_s: float = 0.25
    """An unstarted listener's deadline: this long after its first sentence arrived."""
    stage_timeout_s: float = 30.0
    """A batch that takes longer is given up: its lane counts as stuck until it comes back."""

    def __post_init__(self) -> None:
        if self.max_requests < 1:
            raise ValueError(f"max_requests must be at least 1, got {self.max_requests}")
        if self.first_audio_target_s < 0 or self.stage_timeout_s <= 0:
            raise ValueError("first_audio_target_s cannot be negative, stage_timeout_s must be positive")
