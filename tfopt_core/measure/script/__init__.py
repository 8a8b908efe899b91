"""Scripts in a process of ours: trained whole, or run up to a fit that is taken apart."""
