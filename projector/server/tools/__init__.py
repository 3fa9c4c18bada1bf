"""A conversation in which the server runs the model's tools: the loop, the turns, the tools."""
