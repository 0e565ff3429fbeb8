"""The demo: a durable task reads a text, loses its worker twice, and comes to its end all the same."""
