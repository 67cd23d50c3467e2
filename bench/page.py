"""The one look of every page of ours: a whole HTML document that needs nothing from elsewhere, light and dark."""

from collections.abc import Mapping
from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #5f6873; --ground: #f6f7f9; --card: #fff; --edge: #e1e4e8;
  --grid: #e6e8eb; --alarm: #c92a2a; --good: #2b8a3e; --series-0: #1f6feb; --series-1: #d9480f; --series-2: #2b8a3e;
  --series-3: #862e9c; --series-4: #0b7285; --series-5: #5f3dc4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --faint: #98a2b0; --ground: #101419; --card: #181d24; --edge: #2b323c; --grid: #29303a;
    --alarm: #ff7b72; --good: #56d364; --series-0: #6cb0ff; --series-1: #ff9d5c; --series-2: #56d364;
    --series-3: #da8bf0; --series-4: #4fc3d8; --series-5: #a99cff; }
}
body { font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; color: var(--ink);
  background: var(--ground); margin: 0; }
main { max-width: 1200px; margin: 0 auto; padding: 32px 24px 48px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 16px; margin: 0 0 2px; }
p { margin: 0; }
a { color: inherit; text-decoration: none; }
a.card:hover, a.card:focus-visible { border-color: var(--series-0); }
.sub, .card p, figcaption { color: var(--faint); }
.part { margin-top: 44px; padding-top: 28px; border-top: 1px solid var(--edge); scroll-margin-top: 8px; }
.part > h2 { font-size: 21px; line-height: 1.3; letter-spacing: -0.01em; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 22px 0 12px; }
.contents { grid-template-columns: repeat(auto-fit, minmax(260px, 1fr)); }
.card { background: var(--card); border: 1px solid var(--edge); border-radius: 10px; padding: 16px 18px; }
.tiles .card { padding: 12px 16px; }
.tiles b { display: block; font-size: 24px; line-height: 1.3; font-weight: 650; color: var(--ink); }
.contents b { font-size: 15.5px; }
.contents p { font-size: 13.5px; }
.bad b { color: var(--alarm); }
.good b { color: var(--good); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 12px;
  margin: 12px 0; align-items: start; }
.plots .card { margin: 0; min-width: 0; }
.plots p { font-size: 13.5px; }
svg { width: 100%; height: auto; display: block; margin-top: 8px; }
svg text { font: 11.5px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
.legend { margin-top: 4px; font-size: 13px; }
.key { margin-right: 16px; white-space: nowrap; }
.key i { display: inline-block; width: 20px; margin-right: 6px; vertical-align: middle; }
.wide { overflow-x: auto; margin: 12px 0; }
.sub + .wide { margin-top: 22px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 13.5px; }
th, td { text-align: right; padding: 6px 8px; border-bottom: 1px solid var(--grid); vertical-align: top; }
th { font-weight: 600; color: var(--faint); vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
tr:last-child td { border-bottom: 0; }
.load th, .load td { white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 18px; margin: 8px 0 0; font-size: 13.5px; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
ul { margin: 4px 0 0; padding-left: 18px; font-size: 13.5px; }
code { font: 12.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
"""


def document(title: str, body: str) -> str:
    """`title` is text, `body` HTML."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def facts(named: Mapping[str, str]) -> str:
    """Names and values, a line each; a command looks like one."""
    lines = (
        f"<dt>{escape(name)}</dt><dd>{f'<code>{escape(value)}</code>' if name == 'command' else escape(value)}</dd>"
        for name, value in named.items()
    )
    return f"<dl>{''.join(lines)}</dl>"


def figure(title: str, words: str, drawing: str, keys: str = "") -> str:
    """A card with a drawing; `keys` is its legend.  `title` and `words` are text."""
    return f'<figure class="card"><h2>{escape(title)}</h2><p>{escape(words)}</p>{keys}{drawing}</figure>'
