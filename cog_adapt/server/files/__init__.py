"""The files of callers and of workers: uploads, their signed URLs, and temporary files."""
