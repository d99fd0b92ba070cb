"""Batches as a function of (seed, step): windows, streams, length buckets and packing."""
