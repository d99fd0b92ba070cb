"""Features of networks for images: scored, written and compared with texts."""
