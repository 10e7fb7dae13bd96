"""What the method is chosen by: sets of texts, judged by choices that were made on others."""
