"""The comparison of two measurements that were made separately."""
