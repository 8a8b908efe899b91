"""`tfopt plugins check`: a plugin that breaks a promise is named with it."""

from pathlib import Path

import pytest
from support.forked_command import HASTY
from support.real_process import tfopt

PLUGIN = '''
"""A plugin of a test."""
{imports}
import attrs
from tfopt_core.plugins import Plugin, hookimpl

def halved(x, y):
    return x * {factor}, y

@attrs.frozen(kw_only=True, eq=False)
class Scaled(Plugin):
    """Scales the pictures.

    What it does:
        Multiplies.
    Why it helps:
        It does not.
    When it does not:
        Always.
    Mixes with:
        Anything.
    Reference:
        None.
    """

    targets = ("input",)

    equivalence = "exact"

    @hookimpl
    def build_dataset(self, plan):
        return plan.map(halved)
'''
SMALL = ("--set", "workload.options.examples=320", "--set", "workload.epochs=1")

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow, pytest.mark.thorough]


def install(site: Path, factor: object, imports: str = "") -> None:
    """Write a distribution with the plugin `scaled` into a folder of the import path."""
    info = site / "scaled-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scaled\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tfopt.plugins]\nscaled = scaled_plugin:Scaled\n")
    text = PLUGIN.format(factor=factor, imports=imports)
    (site / "scaled_plugin.py").write_text(text)


def test_a_plugin_that_trains_otherwise_than_it_declares_fails(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, factor=0.5)
    done = tfopt("plugins", "check", "scaled", *SMALL, cwd=tmp_path, site=site, before=HASTY)
    assert done.code == 1, done.out + done.err
    assert 'equivalence is "exact": declared exact, but' in done.out
    assert "is not read back (no report_effect)" in done.out
