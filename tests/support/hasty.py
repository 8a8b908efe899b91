"""Has diagnoses, replays and proofs end soon, in every command that is forked for a test.

The server of commands imports it. Most of a diagnosis is waiting for enough figures, most of a
short measurement the epochs of its certificate, and most of a short search its proof, which makes
as many pairs as the budget holds.
"""

from tfopt_core.diagnosis import matmul, step_rounds
from tfopt_core.diagnosis.step_parts import RecordingLimits
from tfopt_core.measurement import certifying, plan
from tfopt_core.statistics.intervals import MINIMUM_PAIRS
from tfopt_core.trials import step_timing

moment = RecordingLimits(seconds=0.05, at_most=0.2)
step_rounds.REAL = step_rounds.CACHED = step_rounds.GRAPH = step_rounds.DATA = moment
matmul.PEAK_SECONDS = 0.05
step_rounds.ROUNDS = step_rounds.QUICK_ROUNDS
step_timing.MOST = step_timing.FEWEST
certifying.EPOCH_SECONDS, certifying.UNTIMED_BATCHES = 0.0, certifying.LEAST_BATCHES
plan.MOST_PAIRS = MINIMUM_PAIRS
