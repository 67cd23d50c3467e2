"""The interface of a Thinker, the language model that writes an answer, and of the chat format of its prompts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from realtime_tts.engine.api import AudioPart, ImagePart, Rows, SpokenContext, TextEnd, TextSampling, Turn
from realtime_tts.engine.scheduling.cost_model import LinearCost
from realtime_tts.errors import RealtimeTTSError


@dataclass(frozen=True, slots=True)
class ThinkerPrompt:
    """`ids` have one pad for each position of audio or image, in the order of `audio` and of `images`."""

    ids: tuple[int, ...]
    audio: tuple[AudioPart, ...] = ()
    images: tuple[ImagePart, ...] = ()
    wants_rows: bool = False
    """Whether the hidden states at the pads are needed, which is where the prompt has pads and is answered aloud."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a step gave for one request.  The end token is not in `ids`."""

    request_id: str
    ids: tuple[int, ...]
    end: TextEnd | None = None
    """Set with the last ids, after which the Thinker has forgotten the request."""
    rows: Rows | None = None
    """(m, hidden): with the first ids, where the prompt wants rows: one for each pad in its user turns."""
    error: RealtimeTTSError | None = None
    """Why, where `end` is `ERROR`."""


@dataclass(frozen=True, slots=True)
class ThinkerInfo:
    hidden: int
    """The width of `Written.rows`."""
    max_positions: int
    """The most tokens of a prompt and its answer."""
    end_ids: frozenset[int] = frozenset()
    input_modalities: frozenset[str] = frozenset()
    """What a prompt may have in addition to text: audio, image."""
    step: LinearCost = field(default=LinearCost(0.010, 0.0004))
    """What a step costs, by rows: the prior of the cost model, before any step was measured."""
    prompt_token_s: float = 0.0001
    """What it costs in addition for each token of a prompt that it reads."""


@dataclass(frozen=True, slots=True)
class ThinkerLoad:
    running: int
    """Requests whose prompt is read."""
    waiting: int
    """Requests whose prompt is not yet wholly read."""
    unread_prompt_tokens: int
    """Of those that wait."""
    free_positions: int
    positions: int


class Thinker(Protocol):
    """Writes the answers of many requests, a token a step for each.  Owned by one thread."""

    @property
    def info(self) -> ThinkerInfo: ...

    def join(self, request_id: str, prompt: ThinkerPrompt, sampling: TextSampling) -> None:
        """Adds a request.  Prompts are read in the order of joining.  Raises `TextTooLong` or `InvalidConfig`."""
        ...

    def step(self, max_prompt_tokens: int | None = None) -> Sequence[Written]:
        """One step for all requests, which never waits for more than that.

        It reads at most so many tokens of prompts, and of the last one perhaps a part; None has no limit.  An
        implementation that cannot limit a single step ignores it.
        """
        ...

    def leave(self, request_id: str) -> None:
        """Forgets a request, at any moment between two steps.  Unknown ids are ignored."""
        ...

    def load(self) -> ThinkerLoad: ...

    def close(self) -> None: ...


class TextDecoder(Protocol):
    """The text of one answer, from its token ids."""

    def push(self, token: int) -> str:
        """The text that is complete with this token: whole characters, which may be none."""
        ...

    def flush(self) -> str:
        """The rest, where the answer ends within a character."""
        ...


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation as both models read it."""

    thinker: ThinkerPrompt
    context: SpokenContext
    """Without the rows, which the Thinker gives."""


class Chat(Protocol):
    """The chat format of a model: conversations to prompts, and tokens to text."""

    def prompt(self, turns: Sequence[Turn], *, spoken: bool) -> ChatPrompt:
        """`spoken`: whether the answer is spoken, so that the prompt of one with pads wants rows.

        Raises `TextTooLong` or `InvalidConfig`.
        """
        ...

    def decoder(self) -> TextDecoder:
        """A new one for each answer."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Answering:
    """What a model needs in addition to its speech stages to answer a conversation."""

    make_thinker: Callable[[], Thinker]
    """Called on the Thinker's own thread, once at the start and again after the Thinker has failed."""
    chat: Chat
