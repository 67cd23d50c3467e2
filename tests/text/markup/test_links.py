"""The text of a link is spoken, and of an address its host."""

from realtime_tts.text.cleaner import TextFilter
from tests.text.cleaning import assert_spoken


def test_the_text_of_a_link_or_image_is_spoken() -> None:
    assert_spoken(
        [
            ("[text](https://a.b/c) ![alt](u.png) [![x](b)](c)", "text alt x"),
            ('see [**b** `c`](<u v> "t") and [w](a_(b)), [x][r] y[^1].', "see b c and w, x y."),
            ("[1] and [open (a) [a](b c) x[0](", "[1] and [open (a) [a](b c) x[0]("),
        ]
    )


def test_the_host_of_an_address_is_spoken() -> None:
    assert_spoken(
        [
            ("Go to https://www.example.com/a/b?x=1. Now", "Go to example.com. Now"),
            ("(http://u:p@foo.org:80/x), www.bar.de! ftp://x.y", "(foo.org), bar.de! x.y"),
            ("joe@www.x.com www.com http:// https://a.com了解", "joe@www.x.com www.com http:// a.com了解"),
            ("<https://a.com/x>more **https://b.de/_x_**", "a.com more b.de"),
        ]
    )
    assert_spoken([("[b](https://www.a.com/c_d) **e**", "[b](a.com) **e**")], frozenset([TextFilter.URLS]))
