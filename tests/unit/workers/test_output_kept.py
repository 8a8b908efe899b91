"""What is kept of a run's output."""

from tfopt_core.trials import outcomes


def test_a_long_output_keeps_its_beginning_and_its_end(tmp_path):
    output = tmp_path / "output.txt"
    output.write_bytes(b"begin" + b"x" * 3 * outcomes.OUTPUT_BYTES + b"end")
    (tmp_path / "cache").mkdir()
    outcomes.remove_private_files(tmp_path)
    kept = output.read_bytes()
    assert kept.startswith(b"begin")
    assert kept.endswith(b"end")
    assert b"bytes left out" in kept
    assert len(kept) < outcomes.OUTPUT_BYTES + 100
    assert not (tmp_path / "cache").exists()


def test_a_short_output_stays_as_it_is(tmp_path):
    output = tmp_path / "output.txt"
    output.write_bytes(b"epoch 1\n")
    outcomes.remove_private_files(tmp_path)
    assert output.read_bytes() == b"epoch 1\n"


def test_start_up_messages_of_tensorflow_are_no_last_words():
    noise = "I0000 00:00:1795307774.069775   14824 port.cc:153] oneDNN custom operations are on."
    assert outcomes.last_words(f"{noise}\nmy error\nW0000 00:00:1: x") == ["my error"]
