"""Trees against a twin that tries every question, and against scikit-learn; forests against known answers."""

import numpy as np
import pytest

from dualq.base import LogError, States, advance, below
from dualq.offline.approximate import trees
from dualq.offline.approximate.tree import matrix_of
from dualq.offline.approximate.trees import cuts_of, grown_tree, held_out_r2, leaf_means


def loss(Y, W):
    """sum_t of the squares around the weighted means."""
    mean = (W * Y).sum(axis=0) / np.maximum(W.sum(axis=0), 1e-300)
    return (W * (Y - mean) ** 2).sum(axis=0)


def naive_question(X, Y, W, categories, min_rows, least):
    """(gain, column, threshold) of the best question, by trying all of them."""
    best = (0.0, -1, 0.0)
    for j in range(X.shape[1]):
        is_category = j >= X.shape[1] - categories
        values = np.unique(X[:, j])
        for c in values if is_category else (values[1:] + values[:-1]) / 2.0:
            yes = X[:, j] == c if is_category else X[:, j] < c
            if min(yes.sum(), (~yes).sum()) < min_rows:
                continue
            drop = loss(Y, W) - loss(Y[yes], W[yes]) - loss(Y[~yes], W[~yes])
            told = ((W[yes] > 0).sum(axis=0) >= least) & ((W[~yes] > 0).sum(axis=0) >= least)
            if drop[told].sum() > best[0] + 1e-9:
                best = (float(drop[told].sum()), j, float(c))
    return best


def naive_tree(X, Y, W, categories, leaves, min_rows, least):
    """The questions of a best-first tree in the order in which they are asked."""
    pieces, asked = [np.arange(len(X))], []
    while len(pieces) < leaves:
        found = [naive_question(X[p], Y[p], W[p], categories, min_rows, least) for p in pieces]
        k = max(range(len(pieces)), key=lambda k: found[k][0])
        gain, j, c = found[k]
        if gain <= 0.0:
            break
        asked.append((j, c))
        piece = pieces.pop(k)
        yes = X[piece, j] == c if j >= X.shape[1] - categories else X[piece, j] < c
        pieces += [piece[yes], piece[~yes]]
    return asked, pieces


def some_rows(seed, n=400):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 12, n) / 4.0, rng.normal(size=n).round(1), rng.integers(0, 4, n)])
    a = rng.integers(0, 3, n)  # three targets, and a row speaks of one of them
    y = np.where(a == 0, X[:, 0] > 1.3, (X[:, 2] == 2) * X[:, 1]) + 0.3 * rng.normal(size=n)
    W = (a[:, None] == np.arange(3)) * rng.uniform(0.5, 2.0, (n, 1))
    return X, np.repeat(y[:, None], 3, axis=1), W


@pytest.mark.parametrize("seed", range(4))
def test_a_tree_asks_what_a_twin_asks_that_tries_everything(seed):
    X, Y, W = some_rows(seed)
    tree = grown_tree(X, Y, W, categories=1, max_leaves=6, min_rows=15, least=4)
    asked, pieces = naive_tree(X, Y, W, 1, 6, 15, 4)
    order = np.flatnonzero(tree.left > 0)[np.argsort(tree.left[tree.left > 0])]
    np.testing.assert_allclose(np.column_stack([tree.feature, tree.threshold])[order], asked, atol=1e-12)
    leaves = tree.leaf_of(X)
    assert sorted(np.unique(leaves)) == list(range(tree.leaves))
    assert {tuple(np.flatnonzero(leaves == k)) for k in range(tree.leaves)} == {tuple(np.sort(p)) for p in pieces}


def test_a_smaller_tree_is_the_beginning_of_a_larger_one():
    X, Y, W = some_rows(9)
    large = grown_tree(X, Y, W, categories=1, max_leaves=8, min_rows=10)
    for leaves in range(1, 9):
        small, cut = grown_tree(X, Y, W, categories=1, max_leaves=leaves, min_rows=10), large.pruned(leaves)
        np.testing.assert_array_equal(small.leaf_of(X), cut.leaf_of(X))
        assert cut.leaves == leaves


def test_the_paths_lead_to_the_leaves():
    X, Y, W = some_rows(2)
    tree = grown_tree(X, Y, W, categories=1, max_leaves=7, min_rows=10)
    leaves = tree.leaf_of(X)
    for leaf, path in enumerate(tree.paths()):
        here = np.ones(len(X), bool)
        for node, yes in path:
            x, c = X[:, tree.feature[node]], tree.threshold[node]
            here &= (x == c if tree.equal[node] else x < c) == yes
        np.testing.assert_array_equal(here, leaves == leaf)


def test_a_label_that_is_not_known_is_no_label_that_is_asked_for():
    places = np.repeat([0, 1, 2], 50)
    tree = grown_tree(places[:, None], places == 1, categories=1, max_leaves=2, min_rows=5)
    assert (tree.feature[0], tree.threshold[0]) == (0, 1.0)
    assert tree.leaf_of(np.array([[1], [-1], [0], [7]])).tolist() == [0, 1, 1, 1]


def test_rows_whose_label_is_unknown_can_be_grown_from():
    places = np.repeat([-1, 0, 1], 50)
    tree = grown_tree(places[:, None], np.where(places == -1, 5.0, places), categories=1, max_leaves=3, min_rows=5)
    assert len(set(tree.leaf_of(np.array([[-1], [0], [1]])).tolist())) == 3


def test_numbers_are_cut_between_values_or_between_quantiles():
    np.testing.assert_array_equal(cuts_of(np.array([3.0, 1.0, 1.0, 2.0]), 64), [1.5, 2.5])
    x = np.random.default_rng(0).normal(size=5000)
    cuts = cuts_of(x, 64)
    shares = np.diff(np.searchsorted(np.sort(x), [-np.inf, *cuts, np.inf])) / x.size
    assert cuts.size == 63
    assert np.abs(shares - 1 / 64).max() < 2 / 5000
    beside = np.array([1.0, np.nextafter(1.0, 2.0)])
    assert ((beside < cuts_of(beside, 64)[0]) == [True, False]).all()


def test_means_of_leaves_leave_out_rows_that_say_nothing():
    means = leaf_means(np.array([0, 0, 1]), np.array([[1.0, 9.0], [3.0, 7.0], [5.0, 5.0]]), np.eye(3)[:, :2], 2)
    np.testing.assert_array_equal(means, [[1.0, 7.0], [np.nan, np.nan]])


def test_states_are_read_as_numbers_then_places():
    found = matrix_of(States(np.array([[0.5], [2.0]]), np.array([[1], [-1]])))
    np.testing.assert_array_equal(found, [[0.5, 1.0], [2.0, -1.0]])


def test_trees_are_those_of_scikit_learn_where_values_are_few():
    sklearn = pytest.importorskip("sklearn.tree")
    rng = np.random.default_rng(3)
    X = rng.integers(0, 8, (3000, 4)).astype(float)
    Y = np.column_stack([np.where(X[:, 0] > 4, X[:, 1], 0.3 * X[:, 2]), X[:, 3] > 2]) + 0.5 * rng.normal(size=(3000, 2))
    theirs = sklearn.DecisionTreeRegressor(max_leaf_nodes=9, min_samples_leaf=20).fit(X, Y)
    tree = grown_tree(X, Y, max_leaves=9, min_rows=20)
    asked = theirs.tree_.feature >= 0
    np.testing.assert_array_equal(tree.feature[tree.feature >= 0], theirs.tree_.feature[asked])
    np.testing.assert_allclose(tree.threshold[tree.feature >= 0], theirs.tree_.threshold[asked])
    leaves = tree.leaf_of(X)
    np.testing.assert_allclose(leaf_means(leaves, Y, np.ones_like(Y), 9)[leaves], theirs.predict(X), atol=1e-12)


def test_what_a_forest_finds_is_what_extra_trees_of_scikit_learn_find():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(4)
    X, groups = rng.normal(size=(8000, 5)), np.arange(8000) // 20
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0.0) + rng.normal(size=8000)
    ours = held_out_r2(X, y, groups)
    half = groups % 2 == 0
    theirs = []
    for fit in (half, ~half):
        forest = ensemble.ExtraTreesRegressor(30, min_samples_leaf=20, random_state=0).fit(X[fit], y[fit])
        theirs.append(forest.score(X[~fit], y[~fit]))
    assert ours == pytest.approx(np.mean(theirs), abs=0.05)
    assert 0.3 < ours < np.var(y - rng.normal(size=8000)) / np.var(y)


def naive_forest_tree(code, y, least, x, asked):
    """What a random tree says of the rows asked, one piece at a time; a piece that nobody asks for is not split."""
    said, todo = np.zeros(len(asked)), [(np.arange(len(y)), np.arange(len(asked)))]
    while todo:
        rows, where = todo.pop()
        best, question = -1.0, None
        for j in range(code.shape[1]) if len(rows) >= 2 * least and len(where) else ():
            low, high = int(code[rows, j].min()), int(code[rows, j].max())
            cut = high
            if high > low + 1:
                x = np.uint64(advance(x))
                cut = low + 1 + int(below(x, high - low))
            yes = code[rows, j] < cut
            if least <= yes.sum() <= len(rows) - least:
                score = y[rows[yes]].sum() ** 2 / yes.sum() + y[rows[~yes]].sum() ** 2 / (~yes).sum()
                if score > best:
                    best, question = score, (j, cut)
        if question is None:
            said[where] += y[rows].mean()
            continue
        j, cut = question
        yes, there = code[rows, j] < cut, asked[where, j] < cut
        todo += [(rows[yes], where[there]), (rows[~yes], where[~there])]
    return said


@pytest.mark.parametrize(("rows", "columns"), [(83, 1), (400, 3), (401, 5), (402, 8), (403, 11)])
def test_a_random_tree_is_that_of_a_twin_that_takes_one_row_after_another(rows, columns):
    """The same draws; numbers, flags, and columns of one value. Columns of 0 beside them change nothing."""
    rng = np.random.default_rng(rows)
    code, asked = (rng.integers(0, 256, (size, columns)).astype(np.uint8) for size in (rows, 150))
    for some in (code, asked):
        some[:, 1::4] %= 2
        some[:, 2::4] = 7
    y, x = np.where(code[:, 0] < 90, 1.0, -1.0) + rng.normal(size=rows), trees.generator_state(3, rows)[0]
    wanted = naive_forest_tree(code, y, 10, x, asked)
    assert len(set(wanted)) > 1
    for more in (0, -columns % 8):
        got, wide = np.zeros(150), [np.pad(some, ((0, 0), (0, more))) for some in (code, asked)]
        trees._random_tree(wide[0], y, 10, x, wide[1], got)
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_in_noise_nothing_is_found():
    """Of 400 logs drawn alike R^2 had mean -0.0136 and deviation 0.0102: both bounds are over 4 deviations away."""
    rng = np.random.default_rng(5)
    found = [held_out_r2(rng.normal(size=(1000, 4)), rng.normal(size=1000), np.arange(1000) // 5, s) for s in range(20)]
    assert max(found) < 0.03
    assert np.mean(found) < -0.004


def test_groups_that_err_together_are_not_taken_for_a_finding():
    """Each group has its own level and its own place: with rows on both sides of the cut a forest would know both."""
    rng = np.random.default_rng(6)
    groups = np.repeat(np.arange(60), 50)
    X, y = rng.normal(size=60)[groups][:, None], rng.normal(size=60)[groups]
    assert held_out_r2(X, y, np.arange(3000)) > 0.9
    assert held_out_r2(X, y, groups) < 0.0


def test_what_does_not_vary_is_not_found_and_one_group_is_too_few():
    X = np.random.default_rng(7).normal(size=(200, 2))
    assert held_out_r2(X, np.full(200, 1e9 / 3), np.arange(200)) == 0.0
    with pytest.raises(LogError, match="needs two groups"):
        held_out_r2(X, X[:, 0], np.zeros(200))


def test_neighbours_that_answer_alike_are_joined():
    """Random trees with random answers: each state has the same answer, and no stretch of a number is cut in vain."""
    rng, fewer = np.random.default_rng(0), 0
    for _ in range(60):
        X, Y = rng.random((300, 2)), np.eye(3)[rng.integers(0, 3, 300)]
        tree = grown_tree(X, Y, categories=0, max_leaves=8, min_rows=5)
        answer = rng.integers(0, 2, tree.leaves)
        merged = tree.merged(answer)
        kept = np.array([answer[tree.leaf_of(X)][merged.leaf_of(X) == leaf][0] for leaf in range(merged.leaves)])
        joined = merged.joined(kept)
        said = [kept[merged.leaf_of(X)][joined.leaf_of(X) == leaf] for leaf in range(joined.leaves)]
        assert all(len(set(answers.tolist())) == 1 for answers in said)
        assert joined.leaves == joined.left.size // 2 + 1
        fewer += joined.leaves < merged.leaves
    assert fewer > 10
