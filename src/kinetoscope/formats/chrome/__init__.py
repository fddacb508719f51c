"""Kineto's (Chrome's) JSON, in both directions."""
