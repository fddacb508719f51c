"""Floating point operations by formula."""
