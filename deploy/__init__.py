"""Ways to run many servers on one database: Ray Serve, and Kubernetes without it."""
