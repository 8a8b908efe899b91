"""A training that keeps checkpoints: whether one is there to go on from, and with what.

Read without importing TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from cattrs import structure, unstructure

from tfopt_core.errors import InputError
from tfopt_core.measure.fingerprint import OF_THE_PLACE, differences, fingerprint
from tfopt_core.measure.prepared import Prepared
from tfopt_core.measure.request import Request, with_prepared
from tfopt_core.measure.resume import recipe_differences
from tfopt_core.training.checkpoint_folder import make_ours, names_in, newest_in
from tfopt_core.training.keeping import Keeping

FOLDER = "checkpoints"


@attrs.frozen(kw_only=True)
class Kept:
    """The checkpoints of a training, as it begins or goes on.

    :param start: the file to go on from, None to begin at the start; `values` is what it holds.
    :param damaged: newer checkpoints that were passed over.
    :param moved: what of the machine is not as it was, in words.
    :param code: what the training depends on now, by name.
    """

    folder: Path
    every: int | None = None
    start: str | None = None
    values: Mapping[str, Any] = attrs.field(factory=dict)
    damaged: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    code: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to train."""
        return bool(self.values.get("finished"))

    @property
    def epochs(self) -> int:
        """Epochs that are done."""
        return int(self.values.get("epochs", 0))

    @property
    def steps(self) -> int:
        """Steps that are done of the epoch after these."""
        return int(self.values.get("steps", 0))

    def taken_up(self, request: Request) -> tuple[Prepared, Request] | None:
        """What the training was begun with, and the request with its seed and settings.

        None where there is no checkpoint.
        """
        if self.start is None:
            return None
        prepared = structure(self.values["about"]["prepared"], Prepared)
        gpus = request.machine.gpus if self.moved else prepared.gpus
        prepared = attrs.evolve(prepared, gpus=gpus)
        request = attrs.evolve(request, seed=self.values["seed"])
        return prepared, with_prepared(request, prepared)

    def keeping(self, request: Request, prepared: Prepared) -> Keeping:
        """What the training's process is told."""
        about = {
            "recipe": request.recipe.to_dict(),
            "fingerprint": dict(self.code),
            "prepared": unstructure(prepared),
        }
        return Keeping(folder=self.folder, every=self.every, start=self.start, about=about)


def open_checkpoints(
    request: Request, folder: Path, *, resume: bool, every: int | None = None
) -> Kept:
    """Make the folder, and find the newest valid checkpoint in it.

    :param resume: go on from it; otherwise there must be none.
    :param every: steps after which a checkpoint is written within an epoch too.
    :raises InputError: if the folder is not one of checkpoints, if there are some and none is to be
        resumed, if all of them are damaged, or if recipe, code, versions or environment are no
        longer those that the training was begun with; says which.
    """
    folder = folder.absolute()
    make_ours(folder)
    code = _facts(request)
    if not resume:
        if names_in(folder):
            raise InputError(f'there are checkpoints already; use --resume, or remove "{folder}"')
        return Kept(folder=folder, every=every, code=code)
    newest = newest_in(folder)
    if newest.checkpoint is None:
        if newest.damaged:
            raise InputError(
                f'all checkpoints in "{folder}" are damaged ({", ".join(newest.damaged)}); remove '
                "the folder to train anew"
            )
        return Kept(folder=folder, every=every, code=code)
    values = newest.checkpoint.values
    about = values["about"]
    changed = [
        *recipe_differences(about["recipe"], request.recipe.to_dict()),
        *differences(*(_without_place(facts) for facts in (about["fingerprint"], code))),
    ]
    if changed:
        raise InputError(
            f'the training in "{folder}" cannot go on: {"; ".join(changed)}; undo that, or name '
            "another folder by --checkpoints to train anew"
        )
    if request.seed not in (None, values["seed"]):
        raise InputError(
            f'the training in "{folder}" has the seed {values["seed"]}; leave --seed out'
        )
    return Kept(
        folder=folder,
        every=every,
        start=newest.name,
        values=values,
        damaged=newest.damaged,
        moved=differences(*(_place(facts) for facts in (about["fingerprint"], code))),
        code=code,
    )


def _facts(request: Request) -> dict[str, str]:
    """What the training depends on, by name; the same in a project that was moved."""
    root = str(request.recipe.directory.resolve())
    return {name.replace(root, "."): value for name, value in fingerprint(request).items()}


def _place(facts: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in facts.items() if name in OF_THE_PLACE}


def _without_place(facts: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in facts.items() if name not in OF_THE_PLACE}
