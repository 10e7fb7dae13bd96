"""Models of one's own behind the template's interfaces: a task and a door for each."""
