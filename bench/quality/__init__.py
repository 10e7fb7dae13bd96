"""What adaptation is worth on sets of texts, pictures and tables, beside peers.

Sets (`bench.sets`) are drawn into splits, which contestants answer; each result is a line of JSON
(`records`), so an interrupted run continues; pipelines judge the records and make tables.
"""
