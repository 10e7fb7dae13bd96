"""The door to the HTTP server, with routes for the clients that people have."""
