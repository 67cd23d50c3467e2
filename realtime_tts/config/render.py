"""The configuration in words: a table of what is set and by whom, and a file that explains every setting."""

from operator import attrgetter

import msgspec

from realtime_tts.config.schema import DEFAULT, Resolved, Secret, ServerConfig, Setting, settings


def table(resolved: Resolved) -> str:
    """Every setting with its value and where that came from, one a line; secrets are not shown."""
    rows = [(each.path, _shown(each, resolved.config), resolved.origins[each.path]) for each in settings().values()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{path:<{widths[0]}} = {value:<{min(widths[1], 40)}}  # {origin}" for path, value, origin in rows)


def template(resolved: Resolved) -> str:
    """A configuration file with every setting and what it means.  Those at their default stand in comments."""
    lines = ["# The configuration of realtime-tts.  Every setting is here; those in comments are at their default."]
    section = ""
    for each in settings().values():
        if each.section != section:
            section = each.section
            lines += ["", f"[{section}]"]
        if each.what:
            lines += [f"# {each.what}"]
        is_set = resolved.origins[each.path] != DEFAULT and not each.secret
        lines += [f"{'' if is_set else '# '}{each.name} = {_shown(each, resolved.config)}"]
    return "\n".join(lines) + "\n"


def _shown(setting: Setting, config: ServerConfig) -> str:
    value = attrgetter(setting.path)(config)
    return '"***"' if isinstance(value, Secret) else _toml(value)


def _toml(value: object) -> str:
    match value:
        case None:
            return '"none"'
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case tuple() | list():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            pairs = (f"{_toml(name)} = {_toml(each)}" for name, each in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case _:
            # JSON's strings are TOML's, but for one character.
            return msgspec.json.encode(str(value)).decode().replace("\x7f", "\\u007f")
