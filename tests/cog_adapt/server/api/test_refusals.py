"""What a request is refused for before anything runs, through the routes."""

BODY = {"input": {"text": "a"}}


def test_before_setup_a_put_is_not_ready(play):
    async def scene(site):
        site.lead.state, site.lead.ready = "starting", None
        assert (await site.ask("PUT", "/predictions/a", BODY)).status == 503

    play(scene)


def test_a_stream_of_what_cannot_stream_is_refused(play):
    async def scene(site):
        answer = await site.ask("POST", "/trainings", BODY, accept="text/event-stream")
        assert answer.status == 406

    play(scene)


def test_where_there_is_no_code_for_it_nothing_is_there(play):
    async def scene(site):
        del site.service.dispatchers["train"]
        answer = await site.ask("POST", "/trainings", BODY)
        assert (answer.status, answer.error) == (
            404,
            "this server runs no trainings; it has no code for them.",
        )

    play(scene)
