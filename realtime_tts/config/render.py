"""Configuration as text: a table of values and origins, and a commented file of all settings."""

import textwrap
from operator import attrgetter

import msgspec

from realtime_tts.config.load import DEFAULT, Resolved
from realtime_tts.config.schema import Secret, settings


def table(resolved: Resolved) -> str:
    """One line per setting: its path, its value and the origin of the value.  Secrets are not shown."""
    rows = [(path, toml_value(attrgetter(path)(resolved.config)), resolved.origins[path]) for path in settings()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{path:<{widths[0]}} = {value:<{min(widths[1], 40)}}  # {origin}" for path, value, origin in rows)


def template(resolved: Resolved) -> str:
    """A configuration file with the description of every setting.  Settings at their default are comments."""
    lines = ["# Configuration of realtime-tts.  It has every setting; those at their default are comments."]
    for path, setting in settings().items():
        section, _, name = path.partition(".")
        if f"[{section}]" not in lines:
            lines += ["", f"[{section}]"]
        value = attrgetter(path)(resolved.config)
        is_set = resolved.origins[path] != DEFAULT and not isinstance(value, Secret)
        lines += textwrap.wrap(setting.description, 110, initial_indent="# ", subsequent_indent="# ")
        lines.append(f"{'' if is_set else '# '}{name} = {toml_value(value)}")
    return "\n".join(lines) + "\n"


def toml_value(value: object) -> str:
    match value:
        case None:
            return '"none"'
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case dict():
            pairs = (f"{toml_value(name)} = {toml_value(each)}" for name, each in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case _:  # a path, or a secret, whose text is ***
            # A JSON string is a TOML string, except for one character.
            return msgspec.json.encode(str(value)).decode().replace("\x7f", "\\u007f")
