"""Data sets that need no file."""
