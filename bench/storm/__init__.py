"""A thousand mixed requests at three servers of one PostgreSQL, which are killed in turn.

step_log.py    the template's predictor, which also notes each run and each gradient step
noted.py       reads what it has noted
servers.py     PostgreSQL, the three servers, and HAProxy in front of them
requests.py    what clients ask for: predictions, adaptations, trainings, streams, cancels
outcome.py     what a client saw of its request
asking.py      requests that are sent again until a server answers
streams.py     reads events to their end
clients.py     the clients: each carries one request to its end, whatever is killed meanwhile
spies.py       ask for other owners' records and adapters
receiver.py    receives webhooks
kills.py       kills processes of servers, ten seconds after all servers are ready again
judge.py       compares the answers, the webhooks and what was noted with the promises
"""
