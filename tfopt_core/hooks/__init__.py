"""The contract between core and plugins: hooks, values, the stack and its guards."""
