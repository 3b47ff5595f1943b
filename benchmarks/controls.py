"""Gymnasium's CartPole, Acrobot, MountainCar and LunarLander for many episodes at once, and mixed logs of them.

The first three are their equations in NumPy, in the shape of dualq's problems with numbers (worlds/continuous.py);
`agree` compares each with Gymnasium's own environment step by step. LunarLander is Gymnasium's own, an environment for
each episode; it needs Box2D (pip install "gymnasium[box2d]"). Nothing is random but where episodes begin, and the
sparks of LunarLander's engines. A log is 35% of a random policy, 35% of a biased one, and 30% of a good one with noise;
episodes of the three are mixed.
"""

import math

import numpy as np

from dualq.base import Labels, StateColumns, States
from dualq.worlds.continuous import Step, in_places_of, joined, noisy, record

DISCOUNT = 0.99


def states(*numbers):
    return States(np.stack(numbers, axis=1), np.empty((numbers[0].size, 0), np.int64))


class Control:
    """What the three have in common: three rules left the log; `behaviour` is their mean, `good` the best of them."""

    discount = DISCOUNT
    rows = 60_000
    episodes = 1_000  # by which a value is known
    anywhere = True  # whether an episode may begin in any state
    MIX = (0.35, 0.35, 0.30)

    def random(self, s):
        return np.full((len(s), len(self.actions)), 1.0 / len(self.actions))

    def noisy_good(self, s):
        return noisy(self.good(s).argmax(axis=1), len(self.actions), 0.3)

    def behaviour(self, s):
        """Which rule is at work is not known: their mean."""
        rules = (self.random, self.biased, self.noisy_good)
        return sum(share * rule(s) for share, rule in zip(self.MIX, rules, strict=True))

    def log(self, rows, seed):
        """So many rows of the three, their episodes in random order."""
        count = [round(share * rows) for share in self.MIX[:-1]]
        count.append(rows - sum(count))
        rules = (self.random, self.biased, self.noisy_good)
        parts = [record(self, n, 3 * seed + j, rule) for j, (n, rule) in enumerate(zip(count, rules, strict=True))]
        whole = joined(parts)
        rank = np.random.default_rng(seed).permutation(whole.episode[-1] + 1)[whole.episode]
        order = np.argsort(rank, kind="stable")
        mixed = whole.at(order)
        return type(mixed)(
            mixed.columns, mixed.actions, mixed.state, mixed.a, mixed.r, mixed.next_state, mixed.ended, rank[order]
        )


class CartPole(Control):
    """Barto, Sutton and Anderson (1983), Gymnasium's CartPole-v1: 1 a step until the pole or the cart is lost."""

    gym = "CartPole-v1"
    columns = StateColumns(("position", "velocity", "angle", "spin"), {})
    actions = Labels(2, "action")
    horizon = 500

    def start(self, rng, n):
        return States(rng.uniform(-0.05, 0.05, (n, 4)), np.empty((n, 0), np.int64))

    def step(self, rng, s, a):
        x, v, angle, spin = s.numbers.T
        force, cos, sin = np.where(a == 1, 10.0, -10.0), np.cos(angle), np.sin(angle)
        pushed = (force + 0.05 * spin**2 * sin) / 1.1
        turning = (9.8 * sin - cos * pushed) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        moving = pushed - 0.05 * turning * cos / 1.1
        x, v, angle, spin = x + 0.02 * v, v + 0.02 * moving, angle + 0.02 * spin, spin + 0.02 * turning
        lost = (np.abs(x) > 2.4) | (np.abs(angle) > 12 * 2 * math.pi / 360)
        return Step(np.ones(x.size), states(x, v, angle, spin), lost, {})

    def good(self, s):
        return np.eye(2)[(s.numbers @ [0.05, 0.12, 1.0, 0.3] > 0.0).astype(int)]

    def biased(self, s):
        """By the angle alone, and to the right too often."""
        return noisy((s.numbers[:, 2] > -0.02).astype(int), 2, 0.2)


class MountainCar(Control):
    """Moore (1990), Gymnasium's MountainCar-v0: -1 a step until the car is on the hill."""

    gym = "MountainCar-v0"
    columns = StateColumns(("position", "velocity"), {})
    actions = Labels(3, "action")
    horizon = 200

    def start(self, rng, n):
        return states(rng.uniform(-0.6, -0.4, n), np.zeros(n))

    def step(self, rng, s, a):
        x, v = s.numbers.T
        v = np.clip(v + (a - 1) * 0.001 - 0.0025 * np.cos(3.0 * x), -0.07, 0.07)
        x = np.clip(x + v, -1.2, 0.6)
        v = np.where((x == -1.2) & (v < 0.0), 0.0, v)
        return Step(np.full(x.size, -1.0), states(x, v), (x >= 0.5) & (v >= 0.0), {})

    def good(self, s):
        return np.eye(3)[np.where(s.numbers[:, 1] >= 0.0, 2, 0)]

    def biased(self, s):
        return np.tile([0.15, 0.15, 0.7], (len(s), 1))


class Acrobot(Control):
    """Sutton (1996), Gymnasium's Acrobot-v1: -1 a step until the tip is above the bar."""

    gym = "Acrobot-v1"
    columns = StateColumns(("cos_1", "sin_1", "cos_2", "sin_2", "spin_1", "spin_2"), {})
    actions = Labels(3, "action")
    horizon = 500

    def start(self, rng, n):
        return self._seen(rng.uniform(-0.1, 0.1, (4, n)))

    @staticmethod
    def _seen(y):
        return states(np.cos(y[0]), np.sin(y[0]), np.cos(y[1]), np.sin(y[1]), y[2], y[3])

    @staticmethod
    def _slope(y, torque):
        """Masses, lengths and inertias are 1, centres in the middle, gravity 9.8."""
        one, two, spin_1, spin_2 = y
        cos, sin = np.cos(two), np.sin(two)
        d_1, d_2 = 0.25 + 1.25 + cos + 2.0, 0.25 + 0.5 * cos + 1.0
        phi_2 = 4.9 * np.cos(one + two - math.pi / 2)
        phi_1 = -0.5 * spin_2**2 * sin - spin_2 * spin_1 * sin + 14.7 * np.cos(one - math.pi / 2) + phi_2
        turning_2 = (torque + d_2 / d_1 * phi_1 - 0.5 * spin_1**2 * sin - phi_2) / (1.25 - d_2**2 / d_1)
        return np.stack([spin_1, spin_2, -(d_2 * turning_2 + phi_1) / d_1, turning_2])

    def step(self, rng, s, a):
        cos_1, sin_1, cos_2, sin_2, spin_1, spin_2 = s.numbers.T
        y, torque, h = np.stack([np.arctan2(sin_1, cos_1), np.arctan2(sin_2, cos_2), spin_1, spin_2]), a - 1.0, 0.2
        k_1 = self._slope(y, torque)
        k_2 = self._slope(y + h / 2 * k_1, torque)
        k_3 = self._slope(y + h / 2 * k_2, torque)
        k_4 = self._slope(y + h * k_3, torque)
        y = y + h / 6 * (k_1 + 2 * k_2 + 2 * k_3 + k_4)
        y[2], y[3] = np.clip(y[2], -4 * math.pi, 4 * math.pi), np.clip(y[3], -9 * math.pi, 9 * math.pi)
        up = -np.cos(y[0]) - np.cos(y[1] + y[0]) > 1.0
        return Step(np.where(up, 0.0, -1.0), self._seen(y), up, {})

    def good(self, s):
        """Push the second link against the first one's swing, which pumps energy into it."""
        return np.eye(3)[np.where(s.numbers[:, 4] > 0.0, 0, 2)]

    def biased(self, s):
        return np.tile([0.6, 0.2, 0.2], (len(s), 1))


class LunarLander(Control):
    """Gymnasium's LunarLander-v3, by Box2D: -100 for a crash, 100 for a landing, fuel and the way there in between.

    `step` goes on where `start` or the last `step` stopped, whatever states it is given: an episode cannot begin
    anywhere else than where its environment does.
    """

    gym = "LunarLander-v3"
    columns = StateColumns(("x", "y", "speed_x", "speed_y", "angle", "spin", "left_leg", "right_leg"), {})
    actions = Labels(4, "action")
    horizon = 1000
    rows = 100_000
    episodes = 200
    anywhere = False

    def start(self, rng, n):
        import gymnasium

        self.worlds = [gymnasium.make(self.gym).unwrapped for _ in range(n)]
        self.over = np.zeros(n, bool)
        seeds = rng.integers(2**31, size=n).tolist()
        return self._states([world.reset(seed=seed)[0] for world, seed in zip(self.worlds, seeds, strict=True)])

    def step(self, rng, s, a):
        found = [
            (here, 0.0, False) if over else world.step(int(action))[:3]
            for world, over, here, action in zip(self.worlds, self.over, s.numbers, a, strict=True)
        ]
        seen, r, ended = zip(*found, strict=True)
        self.over = self.over | np.array(ended)
        return Step(np.array(r, float), self._states(seen), np.array(ended), {})

    @staticmethod
    def _states(seen):
        return States(np.array(seen, float), np.empty((len(seen), 0), np.int64))

    def good(self, s):
        """Gymnasium's own heuristic: turn against drift, fire against falling."""
        x, y, speed_x, speed_y, angle, spin, left, right = s.numbers.T
        landed = (left > 0.0) | (right > 0.0)
        turn = np.where(landed, 0.0, (np.clip(0.5 * x + speed_x, -0.4, 0.4) - angle) * 0.5 - spin)
        lift = np.where(landed, -0.5 * speed_y, (0.55 * np.abs(x) - y) * 0.5 - speed_y * 0.5)
        fire, side = (lift > np.abs(turn)) & (lift > 0.05), np.where(turn < -0.05, 3, np.where(turn > 0.05, 1, 0))
        return np.eye(4)[np.where(fire, 2, side)]

    def biased(self, s):
        """Upright and slowly down, wherever that may be, and to the left too often."""
        speed_y, angle, spin = s.numbers[:, 3], s.numbers[:, 4], s.numbers[:, 5]
        turn = -0.5 * angle - spin
        side = np.where(turn < -0.05, 3, np.where(turn > 0.0, 1, 0))
        return noisy(np.where(speed_y < -0.3, 2, side), 4, 0.2)


CONTROLS = {"CartPole": CartPole, "Acrobot": Acrobot, "MountainCar": MountainCar, "LunarLander": LunarLander}


def added_up(problem, rule, seed, episodes):
    """(episodes,) the rewards of each, added up until it ends or Gymnasium stops it."""
    rng, draw, rule = np.random.default_rng(seed), np.random.default_rng([seed, 1]), in_places_of(problem, rule)
    s, total, going = problem.start(rng, episodes), np.zeros(episodes), np.ones(episodes, bool)
    for _ in range(problem.horizon):
        below = np.cumsum(rule(s), axis=1) <= draw.random((episodes, 1))
        step = problem.step(rng, s, below[:, :-1].sum(axis=1))
        total += np.where(going, step.r, 0.0)
        s, going = step.next_state, going & ~step.ended
        if not going.any():
            break
    return total


def agree(problem, steps=400, seed=0):
    """Compare with Gymnasium's environment under random actions; the largest difference of a number."""
    import gymnasium

    env, rng, worst = gymnasium.make(problem.gym), np.random.default_rng(seed), 0.0
    seen, _ = env.reset(seed=seed)
    for _ in range(steps):
        inner = np.asarray(env.unwrapped.state, float)
        here = problem._seen(inner[:, None]) if isinstance(problem, Acrobot) else States(inner[None], np.empty((1, 0)))
        a = int(rng.integers(len(problem.actions)))
        mine = problem.step(rng, here, np.array([a]))
        seen, r, terminated, truncated, _ = env.step(a)
        assert (float(mine.r[0]), bool(mine.ended[0])) == (float(r), terminated)
        worst = max(worst, float(np.abs(mine.next_state.numbers[0] - seen).max()))
        if terminated or truncated:
            env.reset()
    return worst
