"""The routes of the server, one module per family; `projector.asgi.app` puts them together."""
