"""Questions asked of traces. Each module answers one, from a trace to a table or a small typed result."""
