"""Two measurements that were made apart, compared."""
