"""All answers of one engine: admission to the Thinker, text leads, and the bound on a Thinker's step.  Sans-I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from realtime_tts.engine.api import (
    AnswerRequest,
    AudioPart,
    AudioSent,
    Cancel,
    EndStream,
    EngineCommand,
    EngineEvent,
    Extend,
    FinishReason,
    ImagePart,
    ModelInfo,
    PlayoutEnd,
    RequestFinished,
    Role,
    SubmitAnswer,
    TextFinished,
    Turn,
)
from realtime_tts.engine.thinking.answer import Action, Answer, Phase
from realtime_tts.engine.thinking.loop import ThinkerStatus
from realtime_tts.engine.thinking.text_lead import TextLead, Underrun
from realtime_tts.engine.thinking.thinker import Chat, Written
from realtime_tts.errors import EngineUnavailable, InvalidConfig, Overloaded, RealtimeTTSError, TextTooLong

COMFORTABLE_TEXT_S = 2.0
"""While an answer that is being written has a smaller text lead, a Thinker's step stays within a frame's playing time.
64 answers at once, simulated: underrun p95 950 ms without the bound, 0 ms with it."""
USUAL_TEXT_S = 2.0
SMOOTHING = 0.05
_MODALITIES: dict[type, str] = {AudioPart: "audio", ImagePart: "image"}


class AnswerObserver(Protocol):
    """Called on the event loop: must be quick, and must not raise."""

    def on_underrun(self, underrun: Underrun) -> None:
        """A listener had to wait in the middle of an answer."""
        ...


class NoAnswerObserver:
    def on_underrun(self, underrun: Underrun) -> None: ...


class AnswerTable:
    """Every answer from its request to its `RequestFinished`.  Each method returns what is to be done, in order."""

    def __init__(
        self,
        chat: Chat,
        info: ModelInfo,
        *,
        max_wait_s: float | None,
        queue_s: float = 0.0,
        max_requests: int,
        observer: AnswerObserver | None = None,
    ) -> None:
        """`max_wait_s`, `queue_s`, `max_requests`: as in `EngineConfig`."""
        self._chat = chat
        self._info = info
        self._max_wait_s = max_wait_s
        self._queue_s = queue_s
        self._max_requests = max_requests
        self._observer = observer or NoAnswerObserver()
        self._answers: dict[str, Answer] = {}
        self._leads: dict[str, TextLead] = {}
        """Of answers that are spoken."""
        self._streams: set[str] = set()
        """Listeners who have been answered before: they are in mid-conversation."""
        self._text_s = USUAL_TEXT_S

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def thinking(self) -> int:
        """Answers that have a place in the Thinker."""
        return sum(answer.text is not Phase.ENDED for answer in self._answers.values())

    @property
    def text_only(self) -> int:
        """Answers that the speech engine does not know."""
        return sum(answer.request.voice is None for answer in self._answers.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept for any request or listener."""
        return not (self._answers or self._leads or self._streams)

    def needs_bound(self, now_s: float) -> bool:
        """Whether a listener needs tokens soon, so that no step of the Thinker may take long."""
        return any(
            lead.lead_s(now_s) < COMFORTABLE_TEXT_S
            for request_id, lead in self._leads.items()
            if (answer := self._answers[request_id]).text is Phase.OPEN and answer.tokens
        )

    # -- Commands ------------------------------------------------------------------------------------------------------

    def command(self, command: EngineCommand, status: ThinkerStatus, now_s: float) -> list[Action]:
        """A command of a client; those of the speech engine pass."""
        match command:
            case SubmitAnswer(request=request):
                return self._submit(request, status, now_s)
            case Cancel(request_id=request_id) if answer := self._answers.get(request_id):
                return self._after(answer, answer.cancel(), now_s)
            case EndStream(stream_id=stream_id):
                return self._end_stream(command, stream_id, now_s)
            case AudioSent(request_id=request_id, samples=samples, lead_s=lead_s):
                self._on_sent(request_id, samples, lead_s, now_s)
            case PlayoutEnd(stream_id=stream_id, lead_s=lead_s):
                for lead in self._leads_of(stream_id):
                    lead.on_playout_end(lead_s, now_s)
        return [command]

    def _submit(self, request: AnswerRequest, status: ThinkerStatus, now_s: float) -> list[Action]:
        assert request.request_id not in self._answers, f"answer {request.request_id} was submitted twice"
        try:
            answer = self._new_answer(request, status, now_s)
        except RealtimeTTSError as error:
            return [RequestFinished(request.request_id, FinishReason.ERROR, error=error)]
        refusal = self._refusal(answer, status)
        self._answers[request.request_id] = answer
        if request.voice is not None:
            self._leads[request.request_id] = TextLead(self._info.frame_s)
        continues = request.stream_id in self._streams
        self._streams.add(request.stream_id)
        return self._after(answer, answer.begin(refusal, continues=continues), now_s)

    def _new_answer(self, request: AnswerRequest, status: ThinkerStatus, now_s: float) -> Answer:
        if len(self._answers) >= self._max_requests:
            raise Overloaded(f"the engine already has {self._max_requests} answers")
        if not status.ready:
            raise EngineUnavailable(f"the engine answers no conversations: {status.reason}")
        check_turns(request.turns, self._info)
        prompt = self._chat.prompt(request.turns, spoken=request.voice is not None)
        most = status.max_positions - len(prompt.thinker.ids)
        if most < 1:
            raise TextTooLong(
                f"the conversation has {len(prompt.thinker.ids)} tokens, and the model has room for"
                f" {status.max_positions} together with the answer"
            )
        sampling = request.text_sampling
        request = replace(request, text_sampling=replace(sampling, max_tokens=min(sampling.max_tokens, most)))
        return Answer(request, prompt, self._chat.decoder(), submitted_s=now_s)

    def _refusal(self, answer: Answer, status: ThinkerStatus) -> Overloaded | None:
        """Why the Thinker has no capacity for it: none that is free in a short time."""
        open_answers = [each for each in self._answers.values() if each.text is not Phase.ENDED]
        positions = answer.positions + sum(each.positions for each in open_answers)
        if len(open_answers) < status.capacity and positions <= status.positions:
            return None
        queued = max(1, len(open_answers) + 1 - status.capacity)
        wait_s = queued * self._text_s / status.capacity
        if positions > status.positions:  # memory becomes free as answers end
            wait_s = max(wait_s, self._text_s / max(1, len(open_answers)))
        limit_s = self._max_wait_s if answer.request.live else max(self._max_wait_s or 0.0, self._queue_s)
        if self._max_wait_s is None or limit_s is None or wait_s <= limit_s:
            return None
        return Overloaded(
            f"the Thinker is at its capacity of {status.capacity} answers: the expected wait is {wait_s:.1f} s",
            retry_after_s=max(1.0, round(wait_s, 1)),
        )

    def _end_stream(self, command: EndStream, stream_id: str, now_s: float) -> list[Action]:
        actions: list[Action] = []
        for answer in [each for each in self._answers.values() if each.request.stream_id == stream_id]:
            actions += self._after(answer, answer.cancel(), now_s)
        self._streams.discard(stream_id)
        return [*actions, command]

    def end_all(self, error: RealtimeTTSError, now_s: float) -> list[Action]:
        """The engine stops."""
        actions: list[Action] = []
        for answer in list(self._answers.values()):
            actions += self._after(answer, answer.fail(error), now_s)
        return actions

    # -- From the engines ----------------------------------------------------------------------------------------------

    def on_written(self, steps: Iterable[Written], now_s: float) -> list[Action]:
        """What a step of the Thinker gave."""
        actions: list[Action] = []
        for step in steps:
            if (answer := self._answers.get(step.request_id)) is not None:
                actions += self._after(answer, answer.written(step), now_s)
        return actions

    def on_speech(self, event: EngineEvent, now_s: float) -> list[Action]:
        """An event of the speech engine, of an answer."""
        if (answer := self._answers.get(event.request_id)) is None:
            return []  # of an answer that was cancelled
        return self._after(answer, answer.spoken(event), now_s)

    # -- Bookkeeping ---------------------------------------------------------------------------------------------------

    def _after(self, answer: Answer, actions: Iterable[Action], now_s: float) -> list[Action]:
        done = list(actions)
        lead = self._leads.get(answer.request_id)
        for action in done:
            if isinstance(action, TextFinished):
                self._text_s += SMOOTHING * (now_s - answer.submitted_s - self._text_s)
                if lead is not None:
                    lead.on_text_end(now_s)
            elif isinstance(action, Extend) and lead is not None:
                lead.on_tokens(len(action.ids), now_s)
        if answer.ended:
            del self._answers[answer.request_id]
            self._leads.pop(answer.request_id, None)
        return done

    def _on_sent(self, request_id: str, samples: int, lead_s: float, now_s: float) -> None:
        if (lead := self._leads.get(request_id)) is None:
            return
        underrun = lead.on_sent(samples / self._info.sample_rate_hz, lead_s, now_s)
        if underrun is not None:
            self._observer.on_underrun(underrun)

    def _leads_of(self, stream_id: str) -> list[TextLead]:
        return [lead for id_, lead in self._leads.items() if self._answers[id_].request.stream_id == stream_id]


def check_turns(turns: Sequence[Turn], info: ModelInfo) -> None:
    """Raises `InvalidConfig` for what the model cannot read."""
    if not any(turn.role is Role.USER for turn in turns):
        raise InvalidConfig("a conversation needs a message of the user to answer")
    for turn in turns:
        kinds = {kind for part in turn.parts if (kind := _MODALITIES.get(type(part))) is not None}
        if kinds and turn.role is not Role.USER:
            raise InvalidConfig(f"only messages of the user may have {' or '.join(sorted(kinds))}")
        if unread := kinds - info.input_modalities:
            raise InvalidConfig(f"{info.name} does not accept {' or '.join(sorted(unread))}")
