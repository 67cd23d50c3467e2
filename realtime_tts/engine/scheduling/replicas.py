"""Choice of the replica on which a new request begins."""

from collections.abc import Iterable, Mapping

from realtime_tts.engine.scheduling.policy import Candidate


def beginners(
    new: Iterable[Candidate], lane: str, open_requests: Mapping[str, int], slots: int | None
) -> frozenset[str]:
    """The requests of `new` that begin on `lane` now.

    `open_requests` has every lane of the stage with the requests that have begun there.  The most urgent request
    chooses first, the lane with the fewest requests that has one of its `slots` free.
    """
    counts = dict(open_requests)
    begin = []
    for row in sorted(new, key=lambda row: (row.deadline_s, row.sequence)):
        free = [each for each, count in counts.items() if slots is None or count < slots]
        if not free:
            break
        chosen = min(free, key=counts.__getitem__)
        counts[chosen] += 1
        if chosen == lane:
            begin.append(row.request_id)
    return frozenset(begin)
