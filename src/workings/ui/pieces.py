"""What models are writing to a question, sent to the browser as it comes (server-sent events)."""

import asyncio
import json
from collections.abc import AsyncIterator

from workings.ui.asked import json_object
from workings.ui.site import Site

PAUSE_SECONDS = 0.1
"""Between two looks. A person sees no shorter one, and a fast model writes several tokens meanwhile."""


async def piece_events(site: Site, identity: str, place: int) -> AsyncIterator[str]:
    """An event for each piece that a command of `workings ask --pieces` wrote, and `end` when it has ended.

    Each event has as its number where it stands in the command's output: a browser that lost the connection says the
    last one, and ``place`` makes it go on there.
    """
    while not site.stopping.is_set():
        # Asked before reading: what is written between the two is read then, and nothing comes after the end.
        running = site.jobs.is_running(identity)
        for end, line in site.jobs.lines(identity, place):
            place = end
            if "piece" in (value := json_object(line) or {}):
                yield f"id: {end}\ndata: {json.dumps({key: value[key] for key in ('model', 'piece')})}\n\n"
        if not running:
            yield f"id: {place}\nevent: end\ndata: {{}}\n\n"
            return
        await asyncio.sleep(PAUSE_SECONDS)
