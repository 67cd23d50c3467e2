"""Continuity load test in locust, with its web page, statistics and distribution over processes.

    locust -f bench/locustfile.py --host http://127.0.0.1:8000 --headless -u 32 -r 8 -t 60s
    locust -f bench/locustfile.py --host http://127.0.0.1:8000      (then open http://localhost:8089)

Every user has a WebSocket of its own, requests a sentence, listens to its end, pauses, and requests the next one.
Locust's table shows, in milliseconds:

  ttfa      from the request to the first audible sample
  underrun  the longest interruption of playback, one entry per utterance
  sentence  from the request, or the previous sentence, to the end of the sentence; failures are counted here
  refused   time to a refusal for lack of capacity; separate, so that it does not count as a fast response

The run fails (exit status 1) if the 95th percentile of underrun exceeds --max-underrun-p95-ms, or without any audio.
It needs `pip install realtime-tts[bench]`.  Run it from the root of the repository.
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

from bench.listeners import RETRY_AFTER_S
from bench.loopback import require_loopback
from bench.request_record import RequestRecord
from bench.summary import Status, ms, percentile
from bench.texts import pick_text
from realtime_tts.client import stream_url
from realtime_tts.clock import MonotonicClock
from realtime_tts.errors import RealtimeTTSError
from realtime_tts.frontends.native.messages import PROTOCOL, AudioDone, AudioStart, decode_server_message

log = logging.getLogger("continuity")

RECEIVE_TIMEOUT_S = 60.0
"""A request fails when the server sends nothing for this time."""
TTFA, UNDERRUN, SENTENCE, REFUSED = "ttfa", "underrun", "sentence", "refused"


class SynthesisFailure(Exception):
    """The exception that locust shows for a failed request."""


@events.init_command_line_parser.add_listener
def add_options(parser: LocustArgumentParser) -> None:
    parser.add_argument(
        "--max-underrun-p95-ms",
        type=float,
        default=100.0,
        env_var="MAX_UNDERRUN_P95_MS",
        help="Fail if the 95th percentile of underrun exceeds this.  Default: 100",
    )
    parser.add_argument("--think", type=float, default=1.0, help="Mean pause in seconds between requests.  Default: 1")
    parser.add_argument("--sentences", type=int, default=1, help="Sentences per request.  Default: 1")
    parser.add_argument("--voice", default="", help="Default: the server's default")
    parser.add_argument(
        "--closed",
        action="store_true",
        help="Request the next sentence at once: no listening, no pause",
    )
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        include_in_web_ui=False,
        help="Allow a server on another machine, if its owner agrees",
    )


class ContinuityCheck:
    """Pass or fail of the run, from exact figures: locust's own percentiles are rounded."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._underruns_ms: list[float] = []
        environment.events.test_start.add_listener(self._on_start)
        environment.events.request.add_listener(self._on_request)
        environment.events.quitting.add_listener(self._on_quitting)
        # With several locust processes the master decides.
        environment.events.report_to_master.add_listener(self._on_report_to_master)
        environment.events.worker_report.add_listener(self._on_worker_report)

    def verdict(self) -> tuple[bool, str]:
        """Whether the run passes, and why."""
        assert self._environment.parsed_options is not None
        limit_ms: float = self._environment.parsed_options.max_underrun_p95_ms
        p95_ms = percentile(self._underruns_ms, 95)
        if p95_ms is None:
            return False, "no audio was received"
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
def check_continuity(environment: Environment, **_: Any) -> None:
    ContinuityCheck(environment)


class Listener(User):
    """Requests speech, listens, pauses, and repeats."""

    # Numbers the users, so that the texts of each are the same in every run.
    _created = 0

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._options = environment.parsed_options
        self._clock = MonotonicClock()
        self._rng = Random(f"locust/{Listener._created}")
        Listener._created += 1
        self._socket: websocket.WebSocket | None = None

    def on_stop(self) -> None:
        self._disconnect()

    @task
    def request_speech(self) -> None:
        record = RequestRecord(pick_text(self._rng, self._options.sentences), self._clock.now_s())
        try:
            self._speak(record)
        except websocket.WebSocketBadStatusException as response:
            self._on_http_response(record, response)
        except (websocket.WebSocketException, OSError, RealtimeTTSError) as error:
            record.fail(str(error), self._clock.now_s())
        finally:
            # Also if locust stops the user in mid-speech: the audio received so far counts.
            record.interrupt(self._clock.now_s())
            self._report(record)
            if record.status is not Status.OK:
                self._disconnect()
        gevent.sleep(self._pause_s(record))

    # -- WebSocket -----------------------------------------------------------------------------------------------------

    def _speak(self, record: RequestRecord) -> None:
        socket = self._connected()
        record.on_sending(self._clock.now_s())
        socket.send(_json({"type": "input.text", "text": record.text}))
        socket.send(_json({"type": "input.done"}))
        sample_rate_hz = 0
        since_s = record.intended_s
        while not record.ended:
            opcode, data = socket.recv_data()
            now_s = self._clock.now_s()
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                code = int.from_bytes(data[:2], "big") if data else None
                record.on_closed(code, f"closed ({code}: {data[2:].decode()})", now_s)
            elif opcode == websocket.ABNF.OPCODE_BINARY:
                record.on_audio(data, sample_rate_hz, now_s)
            elif (message := decode_server_message(data)) is not None:
                record.on_message(message, now_s)
                if isinstance(message, AudioStart):
                    sample_rate_hz = message.sample_rate
                elif isinstance(message, AudioDone) and not message.error:
                    self._fire(SENTENCE, now_s - since_s, size_bytes=message.total_bytes)
                    since_s = now_s

    def _connected(self) -> websocket.WebSocket:
        if self._socket is None:
            require_loopback(self.host, allow_remote=self._options.allow_remote)
            self._socket = websocket.create_connection(
                stream_url(self.host), subprotocols=[PROTOCOL], timeout=RECEIVE_TIMEOUT_S, suppress_origin=True
            )
            voice = {"voice": self._options.voice} if self._options.voice else {}
            self._socket.send(
                _json({"type": "session.config", "response_format": "pcm", "stream_audio": True, **voice})
            )
        return self._socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.shutdown()
            self._socket = None

    def _on_http_response(self, record: RequestRecord, response: websocket.WebSocketBadStatusException) -> None:
        if response.status_code != 503:
            record.fail(str(response), self._clock.now_s())
            return
        value = (response.resp_headers or {}).get("retry-after", "")
        record.refuse("503", self._clock.now_s(), float(value) if value.isdigit() else None)

    def _pause_s(self, record: RequestRecord) -> float:
        if record.status is not Status.OK:
            return RETRY_AFTER_S if record.retry_after_s is None else record.retry_after_s
        if self._options.closed:
            return 0.0
        remaining_s = max(0.0, record.playback_end_s - self._clock.now_s())
        return remaining_s + (self._rng.expovariate(1 / self._options.think) if self._options.think else 0.0)

    # -- Statistics ----------------------------------------------------------------------------------------------------

    def _report(self, record: RequestRecord) -> None:
        outcome = record.outcome()
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
            exception=SynthesisFailure(failure) if failure else None,
            context={},
        )


def _json(message: dict[str, object]) -> str:
    return msgspec.json.encode(message).decode()
