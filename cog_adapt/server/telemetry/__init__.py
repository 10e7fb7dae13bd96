"""What the front process shows its operators: metrics, traces and logs."""
