"""Answers into text, JSON lines and Arrow."""
