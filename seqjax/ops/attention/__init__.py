"""Attention scores, weights and masks, the kernels that compute them, and positions."""
