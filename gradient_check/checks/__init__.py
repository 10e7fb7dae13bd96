"""The checks, in the order of the report: each judges one flow of gradients."""
