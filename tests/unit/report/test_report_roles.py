"""What `tfopt launch` prints of the processes of a cluster."""

from __future__ import annotations

from support.report_results import show

from tfopt_core.records.messages import EpochDone, Failure
from tfopt_core.records.run import RunReport
from tfopt_core.report.training import epoch_of_role, render_ends, render_roles
from tfopt_core.workers.local_cluster import Role, RoleEnd
from tfopt_core.workers.spawn import ProcessOutcome

TRAINED = RunReport(fits=())
WORKERS = {"worker": ("127.0.0.1:2222", "127.0.0.1:2223")}
CHIEF, SECOND = (Role(addresses=WORKERS, job="worker", index=index) for index in range(2))
SERVER = Role(addresses={**WORKERS, "ps": ("127.0.0.1:2224",)}, job="ps", index=0)


def end(role, message=None, cause=None, called_off=False, **metrics):
    outcome = ProcessOutcome(
        message=message, cause=cause, seconds=1.0, output_path=None, output_tail=""
    )
    return RoleEnd(role=role, outcome=outcome, metrics=metrics, called_off=called_off, seconds=1.0)


def row(text, name):
    [line] = [line for line in text.splitlines() if line.startswith(name)]
    return line.split()


def test_each_role_is_listed_with_address_status_and_loss():
    text = show(
        render_ends(
            [
                end(SECOND, TRAINED, loss=0.51),
                end(CHIEF, TRAINED, loss=0.5),
                end(SERVER, cause="ended with the others", called_off=True),
            ],
            None,
        )
    )
    assert row(text, "worker 0") == ["worker", "0", "127.0.0.1:2222", "trained", "0.5000"]
    assert row(text, "worker 1") == ["worker", "1", "127.0.0.1:2223", "trained", "0.5100"]
    assert row(text, "parameter server 0")[4:] == ["ended", "with", "the", "chief", "-"]
    assert "Causes" not in text


def test_every_cause_is_told_in_the_order_of_the_ends():
    text = show(
        render_ends(
            [
                end(SECOND, cause="killed by SIGKILL"),
                end(CHIEF, Failure(error="E", message="worker 1 is gone", exit_code=3)),
            ],
            "its last line\x1b[31m",
        )
    )
    assert row(text, "worker 0")[-2:] == ["failed", "-"]
    causes = text.partition("Causes")[2]
    first, second = causes.index("worker 1 was killed by SIGKILL"), causes.index("worker 0: worker")
    assert first < second
    assert "Last words of worker 1" in causes
    assert "\x1b[31m" not in text


def test_epochs_of_other_workers_carry_their_name():
    message = EpochDone(0, {"loss": 0.51, "accuracy": 0.9})
    assert show(epoch_of_role(SECOND, message)) == "worker 1: epoch 1  loss 0.5100\n"


def test_all_roles_are_told_before_the_training():
    text = " ".join(show(render_roles([CHIEF, SECOND])).split())
    assert text == "on this machine: worker 0 (127.0.0.1:2222), worker 1 (127.0.0.1:2223)"
