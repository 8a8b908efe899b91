"""All names that a drawn script uses: it begins with `from support.drawn_fits.names import *`."""

# ruff: noqa: F401, F403
import keras
import numpy as np
import tensorflow as tf

from support.drawn_fits.callbacks import *
from support.drawn_fits.data import *
from support.drawn_fits.models import *
from support.drawn_fits.notes import finish, fit, note, noted, under
