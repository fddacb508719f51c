"""Execution traces: what torch's observer writes."""
