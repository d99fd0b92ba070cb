"""Augmentation of images: pure functions of a key, composed by name, batched and jitted."""
