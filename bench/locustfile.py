"""The continuity load test in locust: its web page, its statistics, its ways to scale.

    locust -f bench/locustfile.py --host http://127.0.0.1:8000 --headless -u 32 -r 8 -t 60s
    locust -f bench/locustfile.py --host http://127.0.0.1:8000      (then open http://localhost:8089)

Every user speaks the protocol over a WebSocket of its own, asks for a sentence, hears it to its end, thinks, and asks
for the next.  In locust's table, in milliseconds:

  ttfa      from the request to the first audible sample
  underrun  the longest that the listener had to wait in mid-speech, one row entry an utterance
  sentence  from the request, or the sentence before, to the sentence's end; failures are here
  refused   how long the server took to say that it has no room: apart, since a refusal is no fast answer

The run fails (exit status 1) where the 95th percentile of underrun passes --max-underrun-p95-ms, or nothing was heard.
It needs `pip install realtime-tts[bench]`, and is to be run from the root of the repository.
"""

import logging
from random import Random
from typing import Any

import gevent
import msgspec
import websocket
from locust import User, events, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import WorkerRunner

from bench.hosts import require_loopback
from bench.listeners import RETRY_AFTER_S
from bench.summary import Status, ms, percentile
from bench.take import Take
from bench.texts import pick_text
from realtime_tts.client import stream_url
from realtime_tts.clock import MonotonicClock
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.frontends.native.messages import PROTOCOL, AudioDone, AudioStart, decode_server_message

log = logging.getLogger("continuity")

SILENT_SERVER_S = 60.0
"""A server that says nothing for so long has failed the request."""
TTFA, UNDERRUN, SENTENCE, REFUSED = "ttfa", "underrun", "sentence", "refused"


class NotSpoken(Exception):
    """What locust shows for a request that failed."""


@events.init_command_line_parser.add_listener
def add_options(parser: LocustArgumentParser) -> None:
    parser.add_argument(
        "--max-underrun-p95-ms",
        type=float,
        default=100.0,
        env_var="MAX_UNDERRUN_P95_MS",
        help="Fail where the 95th percentile of underrun passes this.  Default: 100",
    )
    parser.add_argument("--think", type=float, default=1.0, help="Mean seconds between hearing and asking.  Default: 1")
    parser.add_argument("--sentences", type=int, default=1, help="Sentences in a request.  Default: 1")
    parser.add_argument("--voice", default="", help="A voice of the server's.  Default: its own default")
    parser.add_argument(
        "--closed", action="store_true", help="Ask for the next as soon as one was sent: neither hear nor think"
    )
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        include_in_web_ui=False,
        help="Let the server be on another machine, if its owner agrees",
    )


class Gate:
    """Decides whether the run was good enough, from exact figures: locust's own percentiles are rounded."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._underruns_ms: list[float] = []
        environment.events.test_start.add_listener(self._on_start)
        environment.events.request.add_listener(self._on_request)
        environment.events.quitting.add_listener(self._on_quitting)
        # Where locust runs as several processes, the master decides.
        environment.events.report_to_master.add_listener(self._on_report_to_master)
        environment.events.worker_report.add_listener(self._on_worker_report)

    def verdict(self) -> tuple[bool, str]:
        """Whether it passes, and why."""
        assert self._environment.parsed_options is not None
        limit_ms: float = self._environment.parsed_options.max_underrun_p95_ms
        p95_ms = percentile(self._underruns_ms, 95)
        if p95_ms is None:
            return False, "no speech was heard, so there is no continuity to judge"
        passes = p95_ms <= limit_ms
        return passes, (
            f"underrun p95 of {len(self._underruns_ms)} utterances is {ms(p95_ms / 1000)} ms,"
            f" {'within' if passes else 'above'} the limit of {limit_ms:g} ms"
        )

    def _on_start(self, **_: Any) -> None:
        self._underruns_ms.clear()

    def _on_request(self, name: str, response_time: float, **_: Any) -> None:
        if name == UNDERRUN:
            self._underruns_ms.append(response_time)

    def _on_quitting(self, **_: Any) -> None:
        if isinstance(self._environment.runner, WorkerRunner):
            return
        passes, why = self.verdict()
        log.log(logging.INFO if passes else logging.ERROR, "%s: %s", "PASS" if passes else "FAIL", why)
        if not passes:
            self._environment.process_exit_code = 1

    def _on_report_to_master(self, data: dict[str, Any], **_: Any) -> None:
        data["underruns_ms"] = list(self._underruns_ms)
        self._underruns_ms.clear()

    def _on_worker_report(self, data: dict[str, Any], **_: Any) -> None:
        self._underruns_ms.extend(data["underruns_ms"])


@events.init.add_listener
def watch(environment: Environment, **_: Any) -> None:
    Gate(environment)


class Listener(User):
    """Asks for speech, hears it, thinks, asks again."""

    # Every user's own texts are the same in each run.
    _born = 0

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._options = environment.parsed_options
        self._clock = MonotonicClock()
        self._rng = Random(f"locust/{Listener._born}")
        Listener._born += 1
        self._socket: websocket.WebSocket | None = None

    def on_stop(self) -> None:
        self._hang_up()

    @task
    def ask(self) -> None:
        take = Take(pick_text(self._rng, self._options.sentences), self._clock.now_s())
        try:
            self._hear(take)
        except websocket.WebSocketBadStatusException as answer:
            self._on_http_answer(take, answer)
        except (websocket.WebSocketException, OSError, RealtimeTTSError) as error:
            take.fail(str(error), self._clock.now_s())
        finally:
            # Also where locust stops the user in mid-speech: what was heard so far counts.
            take.cut(self._clock.now_s())
            self._tell(take)
            if take.status is not Status.OK:
                self._hang_up()
        gevent.sleep(self._pause_s(take))

    # -- The conversation ----------------------------------------------------------------------------------------------

    def _hear(self, take: Take) -> None:
        socket = self._connected()
        take.on_sending(self._clock.now_s())
        socket.send(_json({"type": "input.text", "text": take.text}))
        socket.send(_json({"type": "input.done"}))
        sample_rate_hz = 0
        since_s = take.intended_s
        while not take.ended:
            opcode, data = socket.recv_data()
            now_s = self._clock.now_s()
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                code = int.from_bytes(data[:2], "big") if data else None
                take.on_closed(code, f"closed ({code}: {data[2:].decode()})", now_s)
            elif opcode == websocket.ABNF.OPCODE_BINARY:
                take.on_audio(data, sample_rate_hz, now_s)
            elif (message := decode_server_message(data)) is not None:
                take.on_message(message, now_s)
                if isinstance(message, AudioStart):
                    sample_rate_hz = message.sample_rate
                elif isinstance(message, AudioDone) and not message.error:
                    self._fire(SENTENCE, now_s - since_s, size_bytes=message.total_bytes)
                    since_s = now_s

    def _connected(self) -> websocket.WebSocket:
        if self._socket is None:
            require_loopback(self.host, allow_remote=self._options.allow_remote)
            self._socket = websocket.create_connection(
                stream_url(self.host), subprotocols=[PROTOCOL], timeout=SILENT_SERVER_S, suppress_origin=True
            )
            voice = {"voice": self._options.voice} if self._options.voice else {}
            self._socket.send(
                _json({"type": "session.config", "response_format": "pcm", "stream_audio": True, **voice})
            )
        return self._socket

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.shutdown()
            self._socket = None

    def _on_http_answer(self, take: Take, answer: websocket.WebSocketBadStatusException) -> None:
        if answer.status_code != 503:
            take.fail(str(answer), self._clock.now_s())
            return
        value = (answer.resp_headers or {}).get("retry-after", "")
        take.refuse("503", self._clock.now_s(), float(value) if value.isdigit() else None)

    def _pause_s(self, take: Take) -> float:
        if take.status is not Status.OK:
            return RETRY_AFTER_S if take.retry_after_s is None else take.retry_after_s
        if self._options.closed:
            return 0.0
        unheard_s = max(0.0, take.heard_until_s - self._clock.now_s())
        return unheard_s + (self._rng.expovariate(1 / self._options.think) if self._options.think else 0.0)

    # -- Into locust's statistics --------------------------------------------------------------------------------------

    def _tell(self, take: Take) -> None:
        outcome = take.outcome()
        if outcome.status is Status.REFUSED:
            self._fire(REFUSED, outcome.ended_s - outcome.intended_s)
            return
        if outcome.status is Status.FAILED:
            self._fire(SENTENCE, outcome.ended_s - outcome.intended_s, failure=outcome.reason)
        if outcome.ttfa_s is not None:
            self._fire(TTFA, outcome.ttfa_s)
        if outcome.packets and outcome.continuity_ok is not None:
            self._fire(UNDERRUN, outcome.max_underrun_s)

    def _fire(self, name: str, time_s: float, *, size_bytes: int = 0, failure: str = "") -> None:
        self.environment.events.request.fire(
            request_type="WS",
            name=name,
            response_time=time_s * 1000,
            response_length=size_bytes,
            exception=NotSpoken(failure) if failure else None,
            context={},
        )


def _json(message: dict[str, object]) -> str:
    return msgspec.json.encode(message).decode()
