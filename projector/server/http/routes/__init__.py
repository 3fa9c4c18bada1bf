"""The routes of the server, one module per family; `projector.server.app` puts them together."""
