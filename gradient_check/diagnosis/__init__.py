"""From a fault to the module and the line behind it; runs after a failure alone."""
