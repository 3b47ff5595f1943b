"""What each agent has let others know, in words; docs/networks.md proves what it says of masks."""

from __future__ import annotations

from dualq.base import count
from dualq.offline.together.agents import Task
from dualq.offline.together.agreement import Common
from dualq.offline.together.tables import MOST_DENSE, House, every_entry


def revealed_by(agent: int, house: House, common: Common, task: Task) -> str:
    """A few sentences on one agent."""
    labels = "" if house.counts is None else ", the labels of its states and actions"
    told = f"how its log was read{labels}, and the unit of its sums{_ranges(house, common)}"
    said = [f"Agent {agent} told every agent {told}."]
    S, A = len(common.states), len(common.actions)
    n = 0 if house.counts is None else house.counts.n.size
    entries = f"{n:,} {'entry' if n == 1 else 'entries'}"
    if task.share == "counts":
        said.append(f"Every agent has its whole table: {entries}, each with its count and its sums.")
        return " ".join(said)
    if task.share == "iterates":
        said.append(
            "Its visits of each pair, first states and ends were sent behind masks: others can read the sums. No table "
            "was sent, but iterates are not private: a neighbour that hears all that this agent sends, and knows what "
            "it was sent, can rebuild its table from some tens of rounds."
        )
        return " ".join(said)
    said.append(
        f"Its table was sent behind {count(task.size - 1, 'mask')}: others can read the sum of all tables, and what "
        "their own tables leave of it."
    )
    if every_entry((S, A)) > MOST_DENSE:
        said.append(f"Every agent knows which {entries} it has, though not how often.")
    if task.size == 2:
        said.append("There are two agents, so the other can subtract its own table and has this one.")
    else:
        said.append(f"All {task.size - 1} others together could read its table.")
    return " ".join(said)


def _ranges(house: House, common: Common) -> str:
    if house.counts is None or (common.reward_range is not None and len(common.cost_ranges) == len(common.costs)):
        return ""
    return "; also the least and greatest reward and cost of its own rows"
