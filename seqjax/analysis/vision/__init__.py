"""What networks for images attend to, and how their features lie."""
