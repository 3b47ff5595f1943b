"""Lines of the code that promises rest on, each with one way to break it, and the tests that must notice.

A fragment must occur exactly once in its file, or the check fails: whoever moves or rewrites a line looks here whether
it is still broken in the same spirit.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One broken line."""

    what: str  # what a user would be told that is not so
    file: str  # below src/dualq
    line: str
    broken: str
    tests: tuple[str, ...]


TWINS, LEDGER, LINES = "test_proof_twins.py", "test_ledger.py", "test_promise_lines.py"
OWN = "test_own_value.py"

MUTANTS = (
    # ---- the nine that were once not noticed
    Mutant(
        "values without 0 where episodes end: a floor of 20 where the truth is 2.9",
        "proof/evidence.py",
        "        low, high = min(low, 0.0), max(high, 0.0)\n",
        "        low, high = min(low, high), max(low, high)\n",
        (f"{TWINS}::test_the_range_of_values",),
    ),
    Mutant(
        "the ball of the rows after the first part on the same share as that of all rows",
        "proof/successors.py",
        "ledger.alike(*names)",
        "[Ledger(ledger.delta) for _ in names]",
        (f"{TWINS}::test_the_two_events",),
    ),
    Mutant(
        "several limits, each with all of delta",
        "offline/limited/search.py",
        "ledger.alike(*names)",
        "[Ledger(ledger.delta) for _ in names]",
        (f"{LEDGER}::test_value_and_limits_share_delta_and_all_of_it_is_spent",),
    ),
    Mutant(
        "a trade-off that spends delta twice",
        "offline/limited/trade_off.py",
        'ledger.alike("values", "costs")',
        "Ledger(ledger.delta), Ledger(ledger.delta)",
        (f"{LEDGER}::test_a_trade_off_has_a_ledger_of_its_own",),
    ),
    Mutant(
        "the error of a cost without what was never seen",
        "offline/limited/estimates.py",
        "np.hypot((1.0 - alpha) * np.sqrt(known.variance), self._unseen(asked, (1.0 - alpha) * known.occupancy))",
        "(1.0 - alpha) * np.sqrt(known.variance)",
        (f"{LINES}::test_a_cost_that_was_never_seen_has_an_error",),
    ),
    Mutant(
        "halves of the rows taken for all of them",
        "offline/careful/selection_bias.py",
        "full = PARTS + 0.5 * more",
        "full = PARTS",
        (f"{LINES}::test_halves_keep_less_than_all_rows_do",),
    ),
    Mutant(
        "actions that tie are mixed alike, and not as logged",
        "offline/careful/fitting.py",
        "rows.habit * ties, rows.habit)",
        "rows.supported * ties, rows.habit)",
        (f"{LINES}::test_actions_that_tie_are_taken_as_the_log_took_them",),
    ),
    Mutant(
        "memory across the ends of episodes",
        "logs/reading/queries.py",
        "= ~table.before_over.fill_null(True)",
        "= ~table.before_over.fill_null(True) | True",
        (f"{LINES}::test_the_state_before_is_of_the_same_episode",),
    ),
    Mutant(
        "a floor that rests on the iteration's convergence",
        "proof/floors.py",
        "np.maximum(V[:S] - taken, worst)",
        "np.maximum(V[:S], worst)",
        (f"{TWINS}::test_a_floor_does_not_rest_on_convergence",),
    ),
    # ---- the ledger
    Mutant(
        "more than delta is handed out",
        "proof/ledger.py",
        "if not 0.0 <= delta <= left + ROUNDING * self.delta:",
        "if not 0.0 <= delta:",
        (f"{LEDGER}::test_more_than_delta_is_refused_by_name",),
    ),
    Mutant(
        "an account that is spent twice",
        "proof/ledger.py",
        "        if self.among or self.accounts:\n",
        "        if self.accounts:\n",
        (f"{LEDGER}::test_nothing_is_spent_twice",),
    ),
    Mutant(
        "the statements of an account are not counted",
        "proof/ledger.py",
        "np.log(self.statements / self.delta)",
        "np.log(1.0 / self.delta)",
        (f"{TWINS}::test_the_two_events",),
    ),
    Mutant(
        "the value's certificate with all of delta beside limits",
        "offline/limited/search.py",
        "SHARE_OF_VALUE = 0.5",
        "SHARE_OF_VALUE = 0.9",
        (f"{LEDGER}::test_value_and_limits_share_delta_and_all_of_it_is_spent",),
    ),
    Mutant(
        "every look at a run with all of delta",
        "online/stopping.py",
        "1.0 / (self.looks * (self.looks + 1))",
        "0.25",
        (f"{LEDGER}::test_a_run_that_stops_spends_a_share_on_every_look",),
    ),
    Mutant(
        "a trade-off with twice the delta that was asked for",
        "offline/limited/trade_off.py",
        "ledger = Ledger(1.0 - confidence)",
        "ledger = Ledger(2.0 * (1.0 - confidence))",
        (f"{LEDGER}::test_a_trade_off_has_a_ledger_of_its_own",),
    ),
    # ---- the two events
    Mutant(
        "floors and ceilings on the same statements",
        "proof/confidence_sets.py",
        "level = account.level(sides=2, pairs=N.size)",
        "level = account.level(pairs=N.size)",
        (f"{TWINS}::test_the_two_events",),
    ),
    Mutant(
        "a reference that has seen the block it is for",
        "proof/confidence_sets.py",
        "enumerate(blocks[:-1], 1)",
        "enumerate(blocks[:-1], 0)",
        (f"{TWINS}::test_references",),
    ),
    Mutant(
        "references from hardly any rows",
        "proof/confidence_sets.py",
        "ENOUGH = 20",
        "ENOUGH = 1",
        (f"{TWINS}::test_references",),
    ),
    Mutant(
        "a cost that is known, with no noise of its successors",
        "proof/confidence_sets.py",
        "noise_of(quiet, references, alpha, (-half, half), level)[0]",
        "np.zeros((2, rho.size))",
        (f"{TWINS}::test_costs_that_are_known",),
    ),
    Mutant(
        "the range of r + alpha f without that of f",
        "proof/noise.py",
        "bottom, top = low + reachable.min(), high + reachable.max()",
        "bottom, top = low + reachable.mean(), high + reachable.mean()",
        (f"{TWINS}::test_the_two_events",),
    ),
    Mutant(
        "the spread about the mean of the block itself, and not about what was guessed before it",
        "proof/noise.py",
        "evidence.per_pair(evidence.scatter[e] + n[e] * off**2)",
        "evidence.per_pair(evidence.scatter[e])",
        (f"{TWINS}::test_the_two_events",),
    ),
    # ---- the number of rows may be chosen by looking
    Mutant(
        "successors after one of five first parts, as if there were no other",
        "proof/successors.py",
        "level + first.price",
        "level",
        (f"{TWINS}::test_the_two_events",),
    ),
    Mutant(
        "one of five first parts at no price",
        "proof/own_value.py",
        "(0.0 if first is None else first.price)",
        "0.0",
        (f"{OWN}::test_the_first_part_is_paid_for",),
    ),
    Mutant(
        "borders for the events of pairs counted from the end of the log",
        "proof/own_value.py",
        "end >= APART * ends[cuts[-1] - 1]",
        "ends[-1] >= APART * end",
        (f"{OWN}::test_who_ends_a_log_moves_no_border",),
    ),
    Mutant(
        "rows that are foreseen by how many there are in the end",
        "proof/foresight.py",
        "HORIZON * size, [], []",
        "rows.sizes.sum(), [], []",
        (f"{OWN}::test_what_is_foreseen_does_not_know_how_many_rows_will_come",),
    ),
    Mutant(
        "a short log that has more of delta for its pairs than a long one",
        "proof/own_value.py",
        '1.0 - SHARE), ledger.take("the policy\'s own value", SHARE)',
        '1.0 if foresighted(blocks) is None else 1.0 - SHARE), ledger.take("the policy\'s own value", 0.0)',
        (f"{OWN}::test_a_short_log_has_no_more_of_delta",),
    ),
    Mutant(
        "the best of six codes at no price",
        "proof/successors.py",
        "reduce(np.logaddexp, logs) - np.log(len(logs))",
        "np.max(np.array(logs), axis=0)",
        (f"{TWINS}::test_the_two_events",),
    ),
    Mutant(
        "frequencies of successors taken for their probabilities",
        "proof/successors.py",
        "scale = np.exp(mean_log - eps[i])",
        "scale = np.exp(mean_log - 0.5 * eps[i])",
        (f"{TWINS}::test_the_certificate",),
    ),
    # ---- evidence
    Mutant(
        "rows that ended count as rows that went on",
        "proof/evidence.py",
        "pair * (S + 1) + np.where(counts.ended, S, counts.s_next)",
        "pair * (S + 1) + counts.s_next",
        (f"{TWINS}::test_evidence",),
    ),
    Mutant(
        "nothing can end, though rows did",
        "proof/evidence.py",
        "merged.over), ends)",
        "merged.over), False)",
        (f"{TWINS}::test_evidence",),
    ),
    Mutant(
        "no value beyond one reward, though rows before the end pay",
        "proof/evidence.py",
        "or counts.reward_square_sum[going].any()",
        "",
        (f"{TWINS}::test_the_range_of_values_where_only_the_end_pays",),
    ),
    Mutant(
        "a known range of a cost where it is only as observed",
        "logs/counts.py",
        "cost_ranges_known=frozenset.intersection(",
        "cost_ranges_known=frozenset.union(",
        (f"{LINES}::test_a_range_is_known_where_all_parts_know_theirs",),
    ),
    Mutant(
        "a known range of rewards where it is only as observed",
        "logs/counts.py",
        "range_known=all(c.range_known",
        "range_known=any(c.range_known",
        (f"{LINES}::test_a_range_is_known_where_all_parts_know_theirs",),
    ),
    Mutant(
        "blocks of rows that have no order",
        "logs/blocks.py",
        "if not log.has_order or",
        "if",
        (f"{LINES}::test_rows_without_an_order_are_one_block",),
    ),
    # ---- floors, ceilings, costs
    Mutant(
        "the noise of floors for ceilings",
        "proof/floors.py",
        "model.noise[0 if sign > 0.0 else 1]",
        "model.noise[0]",
        (f"{TWINS}::test_the_certificate",),
    ),
    Mutant(
        "a pair that was never logged is worth what others are",
        "proof/floors.py",
        "c = np.where(model.n > 0, sign * model.centre - noise, -np.inf)",
        "c = np.where(model.n > 0, sign * model.centre - noise, 0.0)",
        (f"{TWINS}::test_the_certificate",),
    ),
    Mutant(
        "the ceiling of policies with k rows where none can go on",
        "proof/proving.py",
        "allowed = np.where(thick.any(axis=1, keepdims=True), thick, ask.allowed)",
        "allowed = np.where(thick.any(axis=1, keepdims=True), n > 3 * rows, ask.allowed)",
        (f"{TWINS}::test_the_certificate",),
    ),
    Mutant(
        "the behaviour's interval from the better end of both references",
        "proof/proving.py",
        "behaviour_high = np.min(",
        "behaviour_high = 0.99 * np.min(",
        (f"{TWINS}::test_the_certificate",),
    ),
    Mutant(
        "a cost bounded from the wrong side",
        "proof/costs.py",
        "turned_counts(paying_counts(block, cost), -SIGNS[sense])",
        "turned_counts(paying_counts(block, cost), SIGNS[sense])",
        (f"{TWINS}::test_costs",),
    ),
    # ---- what is promised, and when
    Mutant(
        "a limit is promised though its bound is not proven",
        "offline/limited/search.py",
        "kept = limit.sign * self.end(one, policy) <= limit.sign * limit.bound + 1e-12",
        "kept = reached",
        (f"{LINES}::test_a_limit_is_promised_only_where_its_bound_is_proven",),
    ),
    Mutant(
        "rewards that a few rows did not show cannot happen",
        "offline/trust.py",
        "RULE_OF_THREE / np.maximum(counts.visits, 1)",
        "0.1 / np.maximum(counts.visits, 1)",
        (f"{LINES}::test_an_observed_range_is_no_range_where_rows_are_few",),
    ),
    Mutant(
        "a promise from a log that speaks against it",
        "offline/trust.py",
        "reasons = [AGAINST[what] for what in contradicted]",
        "reasons = []",
        (f"{LINES}::test_a_promise_is_withheld_where_the_log_speaks_against_it",),
    ),
    Mutant(
        "a log that speaks against its reading may be used",
        "offline/trust.py",
        "if contradicted or gain",
        "if gain",
        (f"{LINES}::test_a_promise_is_withheld_where_the_log_speaks_against_it",),
    ),
    # ---- where value is measured
    Mutant(
        "value at every state of the log where it is to be that of first states",
        "logs/starts.py",
        "weights = episodic.starts().astype(float)",
        "weights = counts.visits.sum(axis=1).astype(float)",
        (f"{LINES}::test_starts_are_those_of_a_loop",),
    ),
    Mutant(
        "states that were entered only to end go on",
        "logs/counts.py",
        "over[self.s_next[self.ended]] = True",
        "pass",
        (f"{LINES}::test_a_state_that_was_entered_only_to_end_is_no_state_that_was_never_left",),
    ),
    # ---- rows that stand in their order
    Mutant(
        "the first row of an episode as what followed the last of another",
        "logs/reading/decisions.py",
        "return inside.ifelse(moved(value), null(value.type()))",
        "return moved(value)",
        ("test_standing_rows.py::test_of_every_kind_of_file",),
    ),
    Mutant(
        "rows out of order, linked as they stand",
        "logs/reading/queries.py",
        "(table.before_t.notnull() & ~rises.fill_null(False))",
        "(table.before_t.notnull() & ~rises.fill_null(True) & literal(False))",
        ("test_standing_rows.py::test_one_row_out_of_place_is_seen",),
    ),
    # ---- logged propensities
    Mutant(
        "both ends of a betting interval, each with all of delta",
        "proof/betting.py",
        'below, above = ledger.alike("floor", "ceiling")',
        "below, above = Ledger(ledger.delta), Ledger(ledger.delta)",
        ("test_betting.py::test_both_ends_share_delta",),
    ),
    Mutant(
        "a stake that has seen the number it is put on",
        "proof/betting.py",
        "before = np.append(FIRST_VARIANCE, squares[:-1] / (i[:-1] + 1.0))",
        "before = squares / (i + 1.0)",
        ("test_betting.py::test_the_floor_is_that_of_a_player_bet_by_bet",),
    ),
    # ---- the policy's own value, where the box stays wide
    Mutant(
        "what flows into a state is paid for less than it can be",
        "proof/total_variance.py",
        "alpha**2 * entering(weights)",
        "alpha**3 * entering(weights)",
        ("test_own_value.py::test_what_rows_vary_is_what_flows_in_less_what_flows_out",),
    ),
    Mutant(
        "slopes as if the policy's value were known",
        "proof/total_variance.py",
        "moved = 2.0 * rho[p] * h[end, p]",
        "moved = 0.0",
        ("test_own_value.py::test_weights_over_rates_pay_for_every_noise_and_every_square",),
    ),
    Mutant(
        "a standard error of rewards far from 0 that rounding has taken away",
        "offline/careful/pooling.py",
        "np.where(hides, most, 0.0)",
        "np.where(hides, 0.0, 0.0)",
        ("test_trust.py::test_rounding_hides_no_variance_of_rewards",),
    ),
)
