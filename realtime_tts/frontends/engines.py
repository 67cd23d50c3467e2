"""Engines by name: which engine a request uses, and the status of all of them."""

from collections.abc import Mapping
from dataclasses import replace

from realtime_tts.engine.api import EngineHandle, EngineStatus
from realtime_tts.engine.config import EngineConfig
from realtime_tts.errors import ModelNotFound, UnknownScheduler
from realtime_tts.text.unicode import printable

SCHEDULER_MARK = "@"
"""One model under two schedulers is two engines: `kokoro` and `kokoro@policy_c`."""


class Engines(dict[str, EngineHandle]):
    """The engines of one server, by name.  The first is the default.

    A dict, and not a `Mapping` around one: each packet of audio looks its engine up.
    """

    def __init__(self, engines: Mapping[str, EngineHandle], default_scheduler: str = EngineConfig().scheduler) -> None:
        """`default_scheduler` is that of the engines whose name has no scheduler."""
        if not engines:
            raise ValueError("a server needs at least one engine")
        super().__init__(engines)
        self.infos = {name: engine.info for name, engine in engines.items()}
        self._default_scheduler = default_scheduler
        self.default_name = next(iter(self))

    @property
    def default(self) -> EngineHandle:
        return self[self.default_name]

    def with_default(self, name: str) -> "Engines":
        if name == self.default_name:
            return self
        return Engines({name: self[name], **self}, self._default_scheduler)

    def scheduler_of(self, name: str) -> str:
        return name.partition(SCHEDULER_MARK)[2] or self._default_scheduler

    def schedulers(self) -> list[str]:
        """The schedulers under which the default model runs, the default engine's first."""
        return [self.scheduler_of(name) for name in self._same_model(self.default_name)]

    def named_by_url(self, query: Mapping[str, str]) -> str:
        """The engine for `?model=NAME&scheduler=NAME`; both are optional.

        Raises `ModelNotFound` or `UnknownScheduler`.
        """
        model = query.get("model", self.default_name)
        if model not in self:
            raise ModelNotFound(f"there is no {_quoted(model)}; the models are {', '.join(self)}", param="model")
        scheduler = query.get("scheduler")
        if scheduler is None:
            return model
        names = {self.scheduler_of(name): name for name in self._same_model(model)}
        if scheduler not in names:
            offered = ", ".join(names)
            raise UnknownScheduler(f"{_quoted(scheduler)} is not offered; there is {offered}", param="scheduler")
        return names[scheduler]

    def status(self) -> EngineStatus:
        """All engines as one: ready while each of them is.  Capacity and costs are those of the default."""
        statuses = {name: engine.status() for name, engine in self.items()}
        default = statuses[self.default_name]
        unready = [f"{name}: {each.reason}" for name, each in statuses.items() if not each.ready]
        return replace(
            default,
            ready=not unready,
            reason=unready[0] if default.ready and unready else default.reason,
            active_requests=sum(each.active_requests for each in statuses.values()),
            waiting_requests=sum(each.waiting_requests for each in statuses.values()),
            queued_requests=sum(each.queued_requests for each in statuses.values()),
        )

    def release(self) -> None:
        """Forgets the engines, when their server has stopped: what still refers to the server keeps no model alive."""
        self.clear()

    def _same_model(self, name: str) -> list[str]:
        model = name.partition(SCHEDULER_MARK)[0]
        return [each for each in self if each.partition(SCHEDULER_MARK)[0] == model]


def _quoted(name: str) -> str:
    return repr(printable(name[:80]))
