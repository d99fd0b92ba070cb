"""Examples from files and from TensorFlow Datasets."""
