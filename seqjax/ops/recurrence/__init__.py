"""Recurrent cells as equations, and what runs them over a sequence."""
