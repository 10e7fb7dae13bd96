"""The HTTP server, with the routes of OpenAI's clients."""
