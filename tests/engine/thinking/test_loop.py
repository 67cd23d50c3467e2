"""Thinker loop: who joins, how much of the prompts a step reads, and what is learned from it."""

from realtime_tts.engine.api import Role, TextEnd, TextPart, TextSampling, Turn
from realtime_tts.engine.thinking import tone
from realtime_tts.engine.thinking.loop import ThinkerLoop, ThinkerRequest
from realtime_tts.errors import EngineUnavailable, TextTooLong

FRAME_S = 0.08


def request(name: str, characters: int = 30, *, continues: bool = False, max_tokens: int = 2048) -> ThinkerRequest:
    turn = Turn(Role.USER, (TextPart("x" * characters),))
    prompt = tone.ToneChat().prompt((turn,), spoken=False).thinker
    return ThinkerRequest(name, prompt, TextSampling(max_tokens=max_tokens), continues=continues)


def make(positions: int = 1 << 20, **costs: float) -> tuple[ThinkerLoop, list[float]]:
    spent: list[float] = []
    thinker = tone.ToneThinker(tone.ThinkerCosts(**costs), spent.append, positions=positions)
    return ThinkerLoop(thinker, FRAME_S), spent


def test_a_bounded_step_stays_within_its_share_of_a_frame() -> None:
    loop, spent = make(base_s=0.008, per_row_s=0.0003, per_prompt_token_s=0.0001)
    for number in range(8):
        loop.submit(request(f"r{number}", 900))  # 303 tokens: 30 ms
    while not spent or loop.thinker.load().waiting:
        loop.step(bounded=True)
        loop.observe(spent[-1])
    assert max(spent) <= 0.86 * FRAME_S  # the budget counts one new row, and two prompts end in some steps
    assert sum(spent) < 8 * 0.040  # several prompts share a step: one a step would take longer


def test_an_unbounded_step_reads_all_prompts() -> None:
    loop, spent = make(base_s=0.008, per_prompt_token_s=0.0001)
    for number in range(8):
        loop.submit(request(f"r{number}", 900))
    assert len(loop.step(bounded=False)) == 8
    assert spent[0] > 0.24


def test_listeners_in_mid_conversation_come_before_new_ones_while_they_wait() -> None:
    loop, _spent = make(base_s=0.05, per_prompt_token_s=0.001)
    for name, continues in (("new", False), ("new too", False), ("known", True), ("known too", True)):
        loop.submit(request(name, continues=continues))
    order: list[str] = []
    while len(order) < 4:
        order += [w.request_id for w in loop.step(bounded=True) if w.request_id not in order]
    assert order == ["known", "known too", "new", "new too"]


def test_no_more_join_than_the_capacity_or_the_memory_allows() -> None:
    loop, _spent = make(base_s=0.05, per_row_s=0.006)
    for number in range(6):
        loop.submit(request(f"r{number}"))
    assert len(loop.step(bounded=False)) == loop.costs.capacity == 3
    loop, _spent = make(positions=100)
    for number in range(6):
        loop.submit(request(f"r{number}", max_tokens=20))  # with its prompt 33
    assert len(loop.step(bounded=False)) == 3
    assert loop.status().open_requests == 6


def test_a_request_that_cannot_join_ends_with_its_error() -> None:
    loop, _spent = make()
    loop.submit(request("r", 60_000))
    (written,) = loop.step(bounded=False)
    assert written.end is TextEnd.ERROR
    assert isinstance(written.error, TextTooLong)
    assert not loop.busy


def test_a_cancel_removes_those_who_wait_and_those_who_have_joined() -> None:
    loop, _spent = make()
    loop.submit(request("joined"))
    loop.step(bounded=False)
    loop.submit(request("waiting"))
    for name in ("waiting", "joined", "unknown"):
        loop.cancel(name)
    assert not loop.busy
    assert loop.status().open_requests == 0


def test_after_a_failure_every_request_gets_its_end() -> None:
    loop, _spent = make()
    loop.submit(request("joined"))
    loop.step(bounded=False)
    loop.submit(request("waiting"))
    ends = loop.end_all(EngineUnavailable("failed"))
    assert {each.request_id for each in ends} == {"joined", "waiting"}
    assert all(each.end is TextEnd.ERROR for each in ends)
    assert not loop.busy


def test_the_costs_of_a_step_are_learned() -> None:
    loop, spent = make(base_s=0.02, per_row_s=0.001, per_prompt_token_s=0.0002)
    loop.costs.observe(1, 5000, 10.0)  # a wrong price: 2 ms a token
    for number in range(100):
        loop.submit(request(f"r{number}", 900))
        loop.step(bounded=False)
        loop.observe(spent[-1])
    assert loop.costs.prompt_token_s < 0.0005
