"""Render docs/plugins/ from the plugin classes, so that code and page cannot disagree.

    .venv/bin/python tools/render_plugin_docs.py

writes a page for each plugin that this distribution registers, and the index. A test compares the
committed pages with the rendered ones.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tfopt_core.hooks.installed.discovery import find, registrations
from tfopt_core.hooks.installed.inspection import PluginInfo, Setting, inspect_plugins
from tfopt_core.hooks.plugin_class import EQUIVALENCE_IN_WORDS, EQUIVALENCES, equivalence_of

DISTRIBUTION = "tfopt"
FOLDER = Path(__file__).parent.parent / "docs" / "plugins"
MODEL_CHANGES = {"none": "no", "in-place": "in place", "replaces": "replaces it"}
MARK = "<!-- Rendered by tools/render_plugin_docs.py from the plugin's class: edit that. -->"


def render_all() -> dict[str, str]:
    """Return every page by file name.

    :raises SystemExit: if a plugin of this distribution cannot be imported.
    """
    ours = [
        name
        for name, registered in registrations().items()
        if any(registration.distribution == DISTRIBUTION for registration in registered)
    ]
    infos = inspect_plugins(ours)
    broken = [f"{info.name}: {info.error}" for info in infos if info.error]
    if broken:
        sys.exit("cannot be imported: " + "; ".join(broken))
    pages = {f"{info.name}.md": render_page(info) for info in infos}
    return {"README.md": render_index(infos), **pages}


def render_index(infos: Sequence[PluginInfo]) -> str:
    """Return the page with the table of all plugins."""
    rows = [
        f"| [`{info.name}`]({info.name}.md) | {_cell(info.summary)} | {_targets(info)} |"
        for info in infos
    ]
    return "\n".join(
        [
            MARK,
            "# Plugins",
            "",
            "What ships with tfopt. `tfopt plugins` lists these and those of other distributions;",
            "`tfopt plugins show NAME` prints a page in the terminal.",
            "",
            "| plugin | what it does | works on |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def render_page(info: PluginInfo) -> str:
    """Return one plugin's page."""
    lines = [MARK, f"# {info.name}", "", info.summary, ""]
    for heading, text in info.sections:
        lines += [f"## {heading}", "", _sentence(_linked(text)), ""]
    lines += ["## In a recipe", "", "```toml", *_snippet(info), "```", ""]
    lines += ["## Settings", "", *_settings(info.settings), ""]
    lines += ["## Facts", "", *_facts(info), ""]
    return "\n".join(lines)


def _settings(settings: Sequence[Setting]) -> list[str]:
    if not settings:
        return ["None."]
    rows = [f"| `{s.name}` | {_cell(s.type)} | {_default(s)} | {_cell(s.help)} |" for s in settings]
    return ["| key | type | default | meaning |", "|---|---|---|---|", *rows]


def _default(setting: Setting) -> str:
    if setting.default is None:
        return "must be given"
    return "unset" if setting.default == "unset" else f"`{_cell(setting.default)}`"


def _snippet(info: PluginInfo) -> list[str]:
    """Return the lines of a recipe that use the plugin, with its defaults as comments."""
    lines = ["[[plugins]]", f'use = "{info.name}"']
    for setting in info.settings:
        if setting.default is None:
            lines.append(f"# {setting.name} = ...   # must be given: {setting.type}")
        elif setting.default != "unset":
            lines.append(f"# {setting.name} = {setting.default}")
    return lines


def _facts(info: PluginInfo) -> list[str]:
    assert info.traits is not None
    traits = info.traits
    facts = [
        ("works on", _targets(info)),
        ("role", traits.role),
        ("training, by default", _declared(info)),
        ("changes the model", MODEL_CHANGES[traits.model_change]),
        ("hooks", ", ".join(f"`{hook}`" for hook in info.hooks)),
    ]
    for label, names in (
        ("needs", traits.requires),
        ("conflicts with", traits.conflicts),
        ("stands before", traits.before),
        ("stands after", traits.after),
    ):
        if names:
            facts.append((label, ", ".join(f"`{name}`" for name in names)))
    return ["| | |", "|---|---|", *(f"| {label} | {text} |" for label, text in facts)]


def _declared(info: PluginInfo) -> str:
    """Return what the plugin declares to do to the training with its default settings."""
    plugin_class = find(info.name, registrations()).load()
    try:
        plugin = plugin_class()
    except (TypeError, ValueError):
        plugin = object.__new__(plugin_class)  # a setting must be given; most never ask for it
    try:
        math = equivalence_of(info.name, plugin)
    except AttributeError:
        return "depends on the settings"
    assert math in EQUIVALENCES
    return EQUIVALENCE_IN_WORDS[math]


def _targets(info: PluginInfo) -> str:
    return ", ".join(info.traits.targets) if info.traits else ""


def _sentence(text: str) -> str:
    """Return the text with a capital, unless it begins with the name of a plugin or a module."""
    first = text.split(maxsplit=1)[0].strip(",.;:") if text else ""
    is_name = first in registrations() or "." in first
    return text if is_name else text[:1].upper() + text[1:]


def _linked(text: str) -> str:
    """Return the text with bare addresses as Markdown links."""
    return re.sub(r"https?://[^\s,;)]+", lambda match: f"<{match[0]}>", text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the pages, and remove those of plugins that are gone."""
    pages = render_all()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for stale in {path.name for path in FOLDER.glob("*.md")} - set(pages):
        (FOLDER / stale).unlink()
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(pages)} pages in {FOLDER}")


if __name__ == "__main__":
    main()
