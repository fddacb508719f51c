"""Answers that people look at: text tables, HTML."""
