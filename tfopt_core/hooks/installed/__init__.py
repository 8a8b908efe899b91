"""The installed plugins: found by entry points, inspected, configured and chosen."""
