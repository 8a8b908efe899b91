"""The data of a fit: as plans, and as Keras takes them."""
