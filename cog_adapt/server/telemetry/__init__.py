"""The front process's metrics, traces and logs for operators."""
