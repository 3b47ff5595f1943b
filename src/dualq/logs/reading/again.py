"""How a log was read, as arguments of `read_log`, and where it stopped: what is needed to go on with more rows."""

from __future__ import annotations

from dualq.logs.log import Log
from dualq.logs.open_ends import OpenEnds
from dualq.logs.reading.schema import ROW
from dualq.logs.table_log import TableLog

NO_NEXT = False  # there is no such column: it is not looked for


def reading_of(log: Log) -> dict[str, object]:
    """{argument of `read_log`: value}, with the edges of bins and the ranges that are known; {} for logs of arrays."""
    if not isinstance(log, TableLog):
        return {}
    q, schema = log.questions, log.schema
    told: dict[str, object] = {part: list(getattr(schema, part)) for part in ("state", "action", "costs")}
    told |= {"reward": schema.reward}
    told |= {part: list(getattr(schema, part)) or NO_NEXT for part in ("next_state", "episode")}
    told |= {part: getattr(schema, part) or NO_NEXT for part in ("time", "terminal", "truncated")}
    if q.last is not None:
        told |= {"truncated": "last"} if q.last == "cut" else {"terminal": "early" if q.early else "last"}
    if schema.time not in (None, ROW) and schema.episode:
        told |= {"clock": "episode" if q.restarts() else "shared"}
    own = (*schema.state, *schema.action)
    told |= {"bins": {column: list(bins.edges) for column, bins in log.bins.items() if column in own} or None}
    told |= {"numbers": list(log.numbers) or None, "reward_range": q.reward_range}
    return told | {"cost_ranges": dict(q.cost_ranges) or None}


def open_ends_of(log: Log) -> OpenEnds | None:
    """The episodes that may go on in a later log; None where nobody could tell that it is the same one."""
    return OpenEnds.of(log.trace(), log.questions.step) if isinstance(log, TableLog) else None
