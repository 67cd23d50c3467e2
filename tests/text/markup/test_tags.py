"""Tags are dropped, some with their content, and entities are decoded."""

from realtime_tts.text.cleaner import TextFilter
from tests.text.cleaning import assert_spoken


def test_tags_are_dropped() -> None:
    assert_spoken(
        [
            ("<think>hm **x**\n</think>Hi <b>bo</b>ld H<sub>2</sub>O", "Hi bold H2O"),
            ("foo<br>bar<p>baz</p>qux<i class='a>b'>x</i>", "foo\nbar\nbaz\nquxx"),
            ('a<!-- c -->b<|im_end|>c <x y="1s"/>d', "a b c d"),
            ('a <break time="1s"/> b', 'a <break time="1s"/> b'),
            ("x<script>a<b</script>y<tool_call>{}</tool_call>z <Thinking>no", "x y z "),
        ]
    )
    assert_spoken([("**a**<br>[b](c)", "**a**\n[b](c)")], frozenset([TextFilter.TAGS]))


def test_entities_are_decoded() -> None:
    assert_spoken(
        [
            ("Tom &amp; Jo &lt;x&gt; &#39;q&#x27; &bogus; &", "Tom & Jo <x> 'q' &bogus; &"),
        ]
    )
