"""What is imported while a fork server starts."""

from __future__ import annotations

import sys

import pytest

from tfopt_core.workers import fork


@pytest.mark.parametrize("preloaded", [(), ("json", "decimal")])
def test_this_process_imports_what_its_runs_need_and_no_more(monkeypatch, preloaded):
    imported = []
    monkeypatch.setattr(fork, "PROGRAM", (sys.executable, "-S", "-c", "pass"))
    monkeypatch.setattr(fork, "answer", lambda *given: {})
    monkeypatch.setattr(fork.importlib, "import_module", imported.append)
    fork.Server.start({}, preloaded).close()
    assert tuple(imported) == preloaded
