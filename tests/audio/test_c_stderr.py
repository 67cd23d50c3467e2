"""What C code prints on standard error is discarded in a block and shown outside of it."""

import ctypes
import os
import threading

import pytest

from realtime_tts.audio.c_stderr import CStderr

pytestmark = pytest.mark.skipif(
    "CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="does nothing with a C library other than glibc"
)


def print_from_c(line: str) -> None:
    library = ctypes.CDLL(None)
    library.fputs(line.encode(), ctypes.c_void_p.in_dll(library, "stderr"))


def test_output_is_discarded_in_the_block_alone(capfd: pytest.CaptureFixture[str]) -> None:
    c_stderr = CStderr()
    print_from_c("before,")
    with pytest.raises(ZeroDivisionError), c_stderr.discarded():  # noqa: PT012
        print_from_c("inside,")
        os.write(2, b"written,")
        raise ZeroDivisionError
    print_from_c("after")
    assert capfd.readouterr().err == "before,written,after"


def test_output_is_shown_again_when_the_last_of_several_threads_is_done(capfd: pytest.CaptureFixture[str]) -> None:
    c_stderr = CStderr()
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with c_stderr.discarded():
            entered.set()
            assert leave.wait(20)

    thread = threading.Thread(target=stay)
    thread.start()
    assert entered.wait(20)
    with c_stderr.discarded():
        print_from_c("both,")
    print_from_c("one,")
    leave.set()
    thread.join()
    print_from_c("none")
    assert capfd.readouterr().err == "none"
