"""What the tests of data plans share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# pytest's importlib mode puts no test folder on the path, and these tests share helpers
sys.path.insert(0, str(Path(__file__).parent))

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
