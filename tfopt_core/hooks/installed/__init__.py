"""The plugins that are installed: found by entry points, inspected, configured and chosen."""
