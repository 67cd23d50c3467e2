"""Replicas at fixed addresses, which something else supervises: systemd, a StatefulSet."""

import asyncio
import logging
from collections.abc import Sequence

from realtime_tts.cluster.remote import RemoteEngine
from realtime_tts.cluster.router import ReplicatedEngine

log = logging.getLogger(__name__)


class ReplicaAddresses:
    """Connects to each address, and again after each loss, and gives the replicas to a router."""

    def __init__(self, router: ReplicatedEngine, addresses: Sequence[str], token: str, *, silent_s: float) -> None:
        """`addresses`: HOST:PORT, or a URL where TLS is in front of it."""
        self._router = router
        self._engines = {
            address: RemoteEngine(address if "://" in address else f"http://{address}", token, silent_s=silent_s)
            for address in addresses
        }
        self._starting: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns when the first replica is ready; the others follow."""
        self._starting = [asyncio.create_task(self._add(name, engine)) for name, engine in self._engines.items()]
        waiting = set(self._starting)
        while waiting and not self._router.replicas():
            _done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)

    async def stop(self) -> None:
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for engine in self._engines.values():
            await engine.stop()

    async def _add(self, name: str, engine: RemoteEngine) -> None:
        await engine.start()
        try:
            self._router.add(name, engine)
        except ValueError as error:
            log.error("%s is not used: %s", name, error)
            await engine.stop()
        else:
            log.info("replica %s is ready", name)
