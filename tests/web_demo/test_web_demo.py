"""Static checks of the page: size, references, strict CSP, accessibility; and its unit tests in Node."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WEB_DEMO = HERE.parents[1] / "web_demo"
FILES = sorted(path for path in WEB_DEMO.rglob("*") if path.is_file())
NOT_FETCHED = ("http://www.w3.org/2000/svg", "https://example.org")
"""An XML namespace, and an address in a difficult text."""
MAX_BYTES = 216 * 1024


class Elements(HTMLParser):
    """The start tags of an HTML page with their attributes, and the text inside scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline_text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.cdata_elem is not None and data.strip():
            self.inline_text.append(data)


@pytest.fixture(scope="module")
def index() -> Elements:
    return Elements((WEB_DEMO / "index.html").read_text())


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_page_s_unit_tests_pass() -> None:
    tests = [str(path) for path in sorted(HERE.rglob("*.test.mjs"))]
    assert tests
    run = subprocess.run(["node", "--test", *tests], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_page_is_below_its_size_limit() -> None:
    sizes = {path.name: path.stat().st_size for path in FILES}
    assert sum(sizes.values()) < MAX_BYTES, sizes


def test_nothing_is_fetched_from_other_hosts() -> None:
    for path in FILES:
        text = path.read_text()
        for name in NOT_FETCHED:
            text = text.replace(name, "")
        assert re.findall(r"(?:https?:|wss?:)?//[a-z0-9.-]+\.[a-z]{2,}", text) == [], path.name


def test_no_script_style_or_handler_is_inline(index: Elements) -> None:
    """The server's CSP would block them."""
    assert index.inline_text == []
    assert all("src" in attributes for tag, attributes in index.tags if tag == "script")
    assert "style" not in {tag for tag, _ in index.tags}
    names = {name for _, attributes in index.tags for name in attributes}
    assert "style" not in names
    assert not {name for name in names if name.startswith("on")}


def test_every_referenced_file_exists_and_every_file_is_referenced(index: Elements) -> None:
    references = [attributes.get("src") or attributes.get("href") or "" for _, attributes in index.tags]
    referenced = {
        WEB_DEMO / reference.removeprefix("static/") for reference in references if reference.startswith("static/")
    }
    assert referenced
    for path in FILES:
        if path.suffix == ".js":
            names = re.findall(r"""(?:from |import |new URL\()["'](\.[\w./-]+\.js)["']""", path.read_text())
            referenced |= {(path.parent / name).resolve() for name in names}
    assert {path for path in referenced if not path.is_file()} == set()
    assert set(FILES) == referenced | {WEB_DEMO / "index.html"}


LAYERS = (("errors.js",), ("audio", "protocol"), ("utterance", "simulation"), ("panels",), ("app.js",))


def test_modules_import_only_from_lower_layers() -> None:
    """Folders of one layer do not import each other."""
    level = {name: number for number, names in enumerate(LAYERS) for name in names}
    for path in FILES:
        if path.suffix != ".js":
            continue
        own = path.relative_to(WEB_DEMO).parts[0]
        for name in re.findall(r"""from ["'](\.[\w./-]+\.js)["']""", path.read_text()):
            other = (path.parent / name).resolve().relative_to(WEB_DEMO).parts[0]
            assert other == own or level[other] < level[own], f"{path.name} imports {name}"


def test_every_element_that_a_script_uses_exists(index: Elements) -> None:
    ids = {attributes["id"] for _, attributes in index.tags if "id" in attributes}
    scripts = "".join(path.read_text() for path in FILES if path.suffix == ".js")
    wanted = set(re.findall(r"""element\("([\w-]+)"\)""", scripts))
    assert wanted
    assert wanted <= ids


def test_every_tab_and_label_refers_to_an_existing_element(index: Elements) -> None:
    ids = {attributes["id"] for _, attributes in index.tags if "id" in attributes}
    named = {
        name
        for _, attributes in index.tags
        for attribute in ("aria-controls", "aria-labelledby", "for")
        for name in (attributes.get(attribute) or "").split()
    }
    assert named
    assert named <= ids


def test_every_control_has_a_label(index: Elements) -> None:
    labelled = {attributes.get("for") for tag, attributes in index.tags if tag == "label"}
    controls = {attributes.get("id") for tag, attributes in index.tags if tag in ("textarea", "select", "input")}
    assert controls
    assert controls <= labelled


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance of #rrggbb."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def over(tint: str, ground: str) -> str:
    """A colour with alpha, #rrggbbaa, blended over an opaque one."""
    alpha = int(tint[7:9], 16) / 255
    mixed = (round(int(tint[i : i + 2], 16) * alpha + int(ground[i : i + 2], 16) * (1 - alpha)) for i in (1, 3, 5))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def test_contrast_meets_wcag_aa() -> None:
    light, dark = re.findall(r":root \{(.*?)\}", (WEB_DEMO / "style.css").read_text(), re.DOTALL)
    for scheme in (light, dark):
        check_contrast(scheme)


def check_contrast(root: str) -> None:
    colour = dict(re.findall(r"--([\w-]+): (#\w+);", root))
    for text, ground in [
        ("ink", "paper"),
        ("soft", "paper"),
        ("soft", "card"),
        ("faint", "card"),
        ("accent", "card"),
        ("on-accent", "accent"),
        ("on-accent", "accent-strong"),
        ("bad", "card"),
    ]:
        assert contrast(colour[text], colour[ground]) >= 4.5, (text, ground)
    for tint in ("accent-soft", "bad-soft", "wait-soft"):
        assert contrast(colour["ink"], over(colour[tint], colour["card"])) >= 4.5, tint
    for outline in ("edge", "accent"):
        assert contrast(colour[outline], colour["card"]) >= 3, outline
