"""Slow twins: the paper's definitions written out with loops and dense matrices, for comparison."""

import itertools

import numpy as np


def dense_transitions(mdp):
    """P[s, a, s'] with zero rows where an action does not exist."""
    P = np.zeros((mdp.num_states, mdp.num_actions, mdp.num_states))
    for s in range(mdp.num_states):
        for a in range(mdp.num_actions):
            for successor, p in zip(*mdp.P(s, a), strict=True):
                P[s, a, successor] += p
    return P


def policy_value(mdp, matrix):
    """(I - alpha P_pi)^-1 R_pi by a dense solve."""
    P_pi = np.einsum("sa,sat->st", matrix, dense_transitions(mdp))
    return np.linalg.solve(np.eye(mdp.num_states) - mdp.discount * P_pi, (matrix * mdp.rewards).sum(axis=1))


def policy_occupancy(mdp, matrix, eta):
    """pi_s(a) ((I - alpha P_pi')^-1 eta)(s) by a dense solve."""
    P_pi = np.einsum("sa,sat->st", matrix, dense_transitions(mdp))
    return matrix * np.linalg.solve(np.eye(mdp.num_states) - mdp.discount * P_pi.T, eta)[:, None]


def optimal_value(mdp):
    """V* as the best value over all deterministic policies, every one of them tried."""
    best = np.full(mdp.num_states, -np.inf)
    choices = [np.flatnonzero(row) for row in mdp.available]
    for policy in itertools.product(*choices):
        matrix = np.eye(mdp.num_actions)[list(policy)]
        best = np.maximum(best, policy_value(mdp, matrix))
    return best


def bellman(mdp, V):
    """(T V)(s) = max_a R(s,a) + alpha sum_s' P(s'|s,a) V(s'), with loops."""
    out = np.empty(mdp.num_states)
    for s in range(mdp.num_states):
        values = []
        for a in range(mdp.num_actions):
            if mdp.available[s, a]:
                successors, p = mdp.P(s, a)
                flow = sum(q * V[t] for q, t in zip(p, successors, strict=True))
                values.append(mdp.rewards[s, a] + mdp.discount * flow)
        out[s] = max(values)
    return out
