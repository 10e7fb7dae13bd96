"""What the front process tells its operators: metrics, traces and logs."""
