"""What holds for every test: how TensorFlow starts, here and in the processes that tests start."""

from __future__ import annotations

import os

# A worker for each core runs tests, and TensorFlow would take all cores for each of them.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
