"""Find the lines of a script that give the measured gain without tfopt."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from tfopt_core.app.script_target import from_here, script_of
from tfopt_core.errors import TfoptError
from tfopt_core.records.plain_form import ChangedLines, PlainForm
from tfopt_core.records.verdict import Verdict

if TYPE_CHECKING:
    from tfopt_core.app.apply_options import ApplyOptions
    from tfopt_core.app.view import View
    from tfopt_core.records.program import Program
    from tfopt_core.records.results import Results

# The verdicts after which the lines are worth a look.
GAINS = (Verdict.FASTER, Verdict.STEPS_FASTER, Verdict.QUALITY_OPEN)


def plain_form(options: ApplyOptions, results: Results, view: View) -> PlainForm | None:
    """Return the lines that give the gain of a first contact without tfopt.

    None for a recipe of the user's, and where nothing was gained.

    :param options: those of `tfopt apply`.
    :param view: shows the progress.
    """
    from tfopt_core.diagnosis.recipe_seal import recipe_path
    from tfopt_core.training.module_place import module_file

    spec = script_of(options.target, module=options.module)
    if spec is None or results.interrupted or results.comparison.verdict not in GAINS:
        return None
    recipe = options.write_to or recipe_path(spec.stem, Path.cwd())
    if spec.module is not None:
        file = module_file(spec.module, Path.cwd())
    else:
        file = Path(spec.label).absolute()
    form = PlainForm(recipe=from_here(recipe), file=from_here(file))
    try:
        with view.phases() as on_phase:
            on_phase("looking for the lines that give the same gain without tfopt")
            program = _exported(recipe, options, results)
            if program is None:
                return None
        before = file.read_text(encoding="utf-8")
    except TfoptError as error:
        return attrs.evolve(form, why_not=str(error).splitlines()[0])
    except (OSError, UnicodeDecodeError) as error:
        return attrs.evolve(form, why_not=f"{file.name} cannot be read: {error}")
    left_out = tuple((one.plugin, one.left_out) for one in program.plugins if one.left_out)
    changes = tuple(changed_lines(before, program.script or before))
    return attrs.evolve(form, changes=changes, left_out=left_out)


def _exported(recipe: Path, options: ApplyOptions, results: Results) -> Program | None:
    """Return the script with the plugins and settings that were measured; None for a recipe whose
    plugins are all comments, since nothing exact was found."""
    from tfopt_core.app.command_request import temporary_request
    from tfopt_core.export.ask import write_down
    from tfopt_core.trials.request import with_settings

    with temporary_request(str(recipe), options.overrides, debug=options.debug) as request:
        if not request.plugins:
            return None
        measured = [results.resolved[stacked.name] for stacked in request.plugins]
        plugins = with_settings(request.plugins, measured)
        return write_down(attrs.evolve(request, plugins=plugins, seed=1))


def changed_lines(before: str, after: str) -> Iterator[ChangedLines]:
    """Yield the lines in which a text differs from the one before; blank lines alone count not."""
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        removed = tuple(line for line in old[first:last] if line.strip())
        added = tuple(line for line in new[start:end] if line.strip())
        if kind == "equal":
            continue
        # an export lays out calls anew: the rest of the added lines may be the removed ones
        same = next((n for n in range(len(added)) if _code(added[n:]) == _code(removed)), None)
        if same is not None and removed:
            removed, added = (), added[:same]
        if removed or added:
            yield ChangedLines(first + 1, removed, added)


def _code(lines: tuple[str, ...]) -> str:
    """Return code without its layout."""
    return re.sub(r",?\s*(?=[)\]}])|\s+", "", "\n".join(lines))
