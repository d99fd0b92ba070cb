"""Images: where they are read from."""
