"""FLOPs, memory, time and sequential depth of models and layers."""
