"""The log that ships: it is what its script draws, and what it draws follows the model it names."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as parquet
from scipy import stats

from dualq.worlds import sample_log as shipped


def test_the_file_is_what_the_script_draws():
    table = parquet.read_table(shipped.path())
    drawn = shipped.draw()
    assert table.column_names == list(drawn)
    for name, column in drawn.items():
        np.testing.assert_array_equal(table[name].to_numpy(), column, err_msg=name)
    assert shipped.path().stat().st_size < 1_000_000


def test_every_shop_has_every_day_and_goes_on_where_it_was():
    rows = shipped.draw()
    assert len(rows["day"]) == shipped.SHOPS * shipped.DAYS == 49_640
    stock, order, day = rows["stock"], rows["order"], rows["day"]
    level, following = stock + order, np.append(stock[1:], -1)
    same_shop = day < shipped.DAYS - 1
    assert (following[same_shop] <= level[same_shop]).all()
    assert (level <= 6).all()
    assert ((following == 0) == (rows["stockout"] == 1))[same_shop].all()


def test_profits_are_those_of_the_formula():
    # Where something is left, demand was sales: profit = 4 sales - 2 order - 5 [order > 0] - .1 left.
    rows = shipped.draw()
    level, left = rows["stock"] + rows["order"], np.append(rows["stock"][1:], 0)
    here = (rows["day"] < shipped.DAYS - 1) & (left > 0)
    expected = 4.0 * (level - left) - 2.0 * rows["order"] - 5.0 * (rows["order"] > 0) - 0.1 * left
    np.testing.assert_allclose(rows["profit"][here], expected[here], rtol=0, atol=1e-12)


def test_next_states_follow_the_model():
    rows, mdp = shipped.draw(), shipped.truth().mdp
    places = {label: place for place, label in enumerate(mdp.states)}
    labels = zip(rows["stock"].tolist(), rows["season"].tolist(), strict=True)
    s = np.array([places[label] for label in labels])
    here = rows["day"][:-1] < shipped.DAYS - 1
    pair, s_next = (s[:-1] * mdp.num_actions + rows["order"][:-1] // 2)[here], s[1:][here]
    seen = np.zeros((mdp.num_states * mdp.num_actions, mdp.num_states))
    np.add.at(seen, (pair, s_next), 1.0)
    expected = mdp.transitions.toarray() * seen.sum(axis=1, keepdims=True)
    assert not (seen > 0)[expected == 0].any()
    # Pearson's test, cells with few expected rows pooled per pair; it rejects a right script with probability 1e-6.
    statistic, degrees = 0.0, 0
    for n, mean in zip(seen, expected, strict=True):
        many = mean >= 5.0
        n, mean = np.append(n[many], n[~many].sum()), np.append(mean[many], mean[~many].sum())
        if many.any() and mean[-1] < 5.0:  # the pooled rest is too small for a cell of its own
            n, mean = np.append(n[:-2], n[-2] + n[-1]), np.append(mean[:-2], mean[-2] + mean[-1])
        statistic, degrees = statistic + ((n - mean) ** 2 / mean.clip(1e-300)).sum(), degrees + n.size - 1
    assert stats.chi2.sf(statistic, degrees) > 1e-6


def test_the_planner_changes_its_habits():
    # With 2 units of stock: on the first 50 days the shelf is filled, on the last 50 nothing is ordered.
    rows = shipped.draw()
    low = rows["stock"] == 2
    early, late = (low & period for period in (rows["day"] < 50, rows["day"] >= shipped.DAYS - 50))
    assert np.median(rows["order"][early]) == 4
    assert np.median(rows["order"][late]) == 0


def test_there_is_a_thin_corner():
    rows = shipped.draw()
    nothing = (rows["stock"] == 0) & (rows["order"] == 0)
    for season in ("winter", "summer"):
        assert 0 < (nothing & (rows["season"] == season)).sum() < 30


def test_the_expected_cost_is_the_mean_of_the_column():
    shop = shipped.truth()
    rate = shipped.stockout_rate(shop)
    rows = shipped.draw()
    places = {label: place for place, label in enumerate(shop.mdp.states)}
    s = np.array([places[label] for label in zip(rows["stock"].tolist(), rows["season"].tolist(), strict=True)])
    mean = rate[s, rows["order"] // 2]
    # A sum of independent Bernoulli variables given the pairs: six standard deviations, false alarm 2e-9.
    deviation = np.sqrt((mean * (1.0 - mean)).sum())
    assert abs(rows["stockout"].sum() - mean.sum()) < 6.0 * deviation
