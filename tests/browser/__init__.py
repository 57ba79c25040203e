"""Pages in a browser."""
