import sys
from pathlib import Path

# the helpers beside these tests; tests are no package
sys.path.insert(0, str(Path(__file__).parent))
