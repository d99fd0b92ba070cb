"""Gradient flow, receptive fields and interpretable units of recurrent layers."""
