"""Settings of the server: models, reading, printing."""
