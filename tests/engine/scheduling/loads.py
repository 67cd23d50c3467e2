"""Loads for the tests of the scheduling rules."""

from hypothesis import strategies as st

from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.scheduling.cost_model import LinearCost, PipelineCosts, UpstreamCosts
from realtime_tts.engine.scheduling.load import Load, StageLane

RAMP = (2, 4, 8, 16, 25)
FRAME_S = 0.08
H200 = PipelineCosts(LinearCost(0.009, 0.00103), LinearCost(0.008, 0.00025), prefill_s=0.012)
SEPARATE = (StageLane("talker"), StageLane("code2wav"))
SHARED = (StageLane("gpu"), StageLane("gpu"))


def load(
    streams: int,
    *,
    context: int = 25,
    shared: bool = False,
    costs: PipelineCosts = H200,
    batch: int = 4,
    lanes: tuple[StageLane, ...] | None = None,
) -> Load:
    lanes = lanes or (SHARED if shared else SEPARATE)
    rows = (streams,) * len(costs.upstream)
    return Load(costs, ChunkPlan(RAMP, context), FRAME_S, streams, streams, batch, lanes, rows)


plans = st.builds(
    ChunkPlan,
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6).map(tuple),
    left_context_frames=st.integers(0, 30),
    right_context_frames=st.integers(0, 30),
    context_cost=st.floats(0, 1),
)
_seconds = st.floats(0, 0.05)
_lines = st.builds(LinearCost, _seconds, _seconds)
_thinkers = st.builds(
    UpstreamCosts,
    st.just("thinker"),
    _lines,
    _seconds,
    units_per_row=st.floats(1, 9),
    units_per_frame=st.floats(0.1, 9),
)


@st.composite
def _loads(draw: st.DrawFn) -> Load:
    upstream = draw(st.lists(_thinkers, max_size=1).map(tuple))
    names = st.sampled_from(["a", "b", "c"])
    replicas = draw(st.integers(1, 3))
    return Load(
        costs=PipelineCosts(draw(_lines), draw(_lines), draw(_seconds), draw(st.floats(1, 200)), upstream=upstream),
        plan=draw(plans),
        frame_s=draw(st.sampled_from([0.025, 0.08])),
        streams=draw(st.integers(0, 500)),
        generating=draw(st.integers(0, 500)),
        decode_batch=draw(st.integers(1, 64)),
        lanes=tuple(StageLane(draw(names), replicas) for _ in range(2 + len(upstream))),
        upstream_rows=tuple(draw(st.integers(0, 500)) for _ in upstream),
    )


loads = _loads()
