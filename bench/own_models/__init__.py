"""One's own models behind the template's interfaces: a task and a predictor for each."""
