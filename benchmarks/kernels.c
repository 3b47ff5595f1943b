/* The loops of dualq's kernels in C: the same generator, layout, chunks and order of operations, as the limit of speed.
 *
 *   walk         walks.py       walk
 *   q_learning   q_learning.py  _run
 *   spd_q        spd_q.py       _run, Algorithm 1 of the paper
 *
 * The structs are the NamedTuples of the kernels, field by field. Compile with -ffp-contract=off: Numba does not contract
 * either, and the two must give the same numbers.
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef int64_t i64;
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint8_t u8;

/* ---- SplitMix64 */

static inline u64 bits(u64 x) {
    u64 z = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
static inline u64 advance(u64 x) { return x + 0x9E3779B97F4A7C15u; }
static inline double uniform(u64 x) { return (double)(i64)(bits(x) >> 11) * 1.1102230246251565e-16; }
static inline i64 below(u64 x, u64 n) { return (i64)(((bits(x) >> 32) * n) >> 32); }

static inline double clip(double x, double top) {
    x = x > 0.0 ? x : 0.0;
    return x < top ? x : top;
}

typedef struct {
    u32 *s, *a;
    double *r;
    u32 *s_next;
    u8 *ended;
} Rows;

/* ---- the stream */

typedef struct {
    const u32 *indptr, *indices;
    const double *cumulated, *behaviours, *start, *rewards, *low, *high;
    i64 drift_kind;
    double drift_rate;
    const double *theta, *to, *first;
    const u8 *ends;
    i64 num_states, num_actions, random_rewards, episodes;
} Tables;

typedef struct {
    i64 *k, *s;
    double *v;
    u8 *settled;
    u64 *rng;
} WalkState;

/* The first place whose cumulated probability exceeds u; the last of a row exceeds every u. */
static inline i64 find(const double *restrict cumulated, i64 size, double u) {
    if (size <= 16) {
        i64 place = 0;
        while (cumulated[place] <= u) place++;
        return place;
    }
    i64 low = 0, high = size - 1;
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (cumulated[middle] > u) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* The same, beginning where it would end if all places were equally likely. */
static inline i64 find_near(const double *restrict cumulated, i64 size, double u) {
    if (size <= 4 || size > 16) return find(cumulated, size, u);
    i64 place = (i64)(u * (double)size);
    while (place > 0 && cumulated[place - 1] > u) place--;
    while (cumulated[place] <= u) place++;
    return place;
}

void walk(const Tables *tables, WalkState *state, const Rows *rows, i64 count) {
    const u32 *restrict indptr = tables->indptr, *restrict indices = tables->indices;
    const double *restrict cumulated = tables->cumulated, *restrict behaviours = tables->behaviours;
    const double *restrict rewards = tables->rewards, *restrict low = tables->low, *restrict high = tables->high;
    u32 *restrict to_s = rows->s, *restrict to_a = rows->a, *restrict to_s_next = rows->s_next;
    double *restrict to_r = rows->r;
    u8 *restrict to_ended = rows->ended;
    i64 num_states = tables->num_states, num_actions = tables->num_actions;
    int drift_kind = tables->drift_kind, random_rewards = tables->random_rewards, episodes = tables->episodes;
    const u8 *restrict ends = tables->ends;
    i64 k = *state->k, s = *state->s;
    u64 x = *state->rng;
    if (s < 0) {
        x = advance(x);
        s = find(tables->start, num_states, uniform(x) * tables->start[num_states - 1]);
    }
    for (i64 i = 0; i < count; i++) {
        i64 which = 0;
        if (drift_kind) {
            double rate = tables->drift_rate;
            double weight = drift_kind == 1 ? pow(k + 1.0, -rate) : 0.5 + 0.5 * cos(rate * log(k + 1.0));
            x = advance(x);
            which = !(uniform(x) < weight);
        }
        x = advance(x);
        i64 a = find_near(behaviours + (which * num_states + s) * num_actions, num_actions, uniform(x));
        i64 row = s * num_actions + a;
        x = advance(x);
        i64 j = indptr[row];
        j += find(cumulated + j, indptr[row + 1] - j, uniform(x));
        double reward = rewards[row];
        if (random_rewards) {
            reward = low[j];
            double width = high[j] - reward;
            if (width > 0.0) {
                x = advance(x);
                reward += width * uniform(x);
            }
        }
        i64 s_next = indices[j];
        u8 ended = episodes ? ends[s_next] : 0;
        to_s[i] = s, to_a[i] = a, to_r[i] = reward, to_s_next[i] = s_next, to_ended[i] = ended;
        s = s_next;
        if (ended) {
            x = advance(x);
            s = find(tables->start, num_states, uniform(x) * tables->start[num_states - 1]);
        }
        k++;
    }
    *state->k = k, *state->s = s, *state->rng = x;
}

/* ---- Q-learning with the step size scale / n(s,a)^power */

typedef struct {
    double *Q;
    i64 *visits, *k;
    u64 *rng;
} QState;

typedef struct {
    const u8 *available;
    double alpha, power, scale, linear;
    const u32 *num_available;
} QProblem;

void q_learning(QState *state, const QProblem *problem, i64 num_states, i64 num_actions, const Rows *rows,
                const double *gamma, i64 count) {
    double *restrict Q = state->Q;
    i64 *restrict visits = state->visits;
    const u8 *restrict available = problem->available;
    const u32 *restrict num_available = problem->num_available;
    const u32 *restrict s = rows->s, *restrict a = rows->a, *restrict s_next = rows->s_next;
    const double *restrict r = rows->r;
    const u8 *restrict ended = rows->ended;
    double alpha = problem->alpha, power = problem->power, scale = problem->scale, linear = problem->linear;
    for (i64 i = 0; i < count; i++) {
        i64 pair = (i64)s[i] * num_actions + a[i], t = s_next[i];
        i64 n = ++visits[pair];
        double g = gamma ? gamma[i] : linear > 0.0 ? scale / (1.0 + linear * n) : scale / pow(n, power);
        double target = r[i];
        if (!ended[i]) {
            double best = -INFINITY;
            const double *Q_next = Q + t * num_actions;
            if (num_available[t] == num_actions) {
                for (i64 b = 0; b < num_actions; b++) best = Q_next[b] > best ? Q_next[b] : best;
            } else {
                for (i64 b = 0; b < num_actions; b++)
                    best = available[t * num_actions + b] && Q_next[b] > best ? Q_next[b] : best;
            }
            target += alpha * best;
        }
        Q[pair] += g * (target - Q[pair]);
    }
    *state->k += count;
}

/* ---- Algorithm 1 */

typedef struct {
    double *Q, *V, *lambda, *mu, *Q_moves, *V_moves, *lambda_moves, *mu_mass;
    i64 *visits;
    double *total_weight;
    i64 *k;
    u64 *rng;
    double *M, *M_before, *v; /* empty: M is not known */
    u8 *settled;
} State;

typedef struct {
    const double *eta;
    const u8 *available;
    double alpha, shift, end_value, value_bound, occupancy_bound, ratio_bound, power, average_from;
    const u32 *num_available;
} Problem;

/* Lines 6 and 7 for a row of lambda whose sum is too small: its entries are raised together, those that exist. */
static void lift(double *restrict x, double *restrict moves, const u8 *restrict available, i64 num_actions, double least,
                 double bound, i64 changed, double raw, double W) {
    double largest = -INFINITY, nu = INFINITY;
    i64 count = num_actions + 1;
    for (i64 b = 0; b < num_actions; b++) {
        double value = b == changed ? raw : x[b];
        if (available[b] && value > largest) largest = value;
    }
    for (;;) {
        i64 kept = 0;
        double below = 0.0;
        for (i64 b = 0; b < num_actions; b++) {
            double low = (b == changed ? raw : x[b]) - largest;
            int keep = available[b] & (low + nu > 0.0);
            below += keep ? low : 0.0;
            kept += keep;
        }
        if (kept >= count) break;
        nu = (least - below) / kept;
        count = kept;
    }
    for (i64 b = 0; b < num_actions; b++) {
        double now = available[b] ? clip((b == changed ? raw : x[b]) - largest + nu, bound) : 0.0;
        moves[b] += W * (now - x[b]);
        x[b] = now;
    }
}

void spd_q(State *state, const Problem *problem, i64 num_states, i64 num_actions, const Rows *rows, const double *gamma,
           i64 count) {
    double *restrict Q = state->Q, *restrict V = state->V, *restrict lambda = state->lambda, *restrict mu = state->mu;
    double *restrict Q_moves = state->Q_moves, *restrict V_moves = state->V_moves;
    double *restrict lambda_moves = state->lambda_moves, *restrict mu_mass = state->mu_mass;
    i64 *restrict visits = state->visits;
    const double *restrict eta = problem->eta, *restrict r = rows->r;
    const u8 *restrict available = problem->available, *restrict ended = rows->ended;
    const u32 *restrict num_available = problem->num_available;
    const u32 *restrict s = rows->s, *restrict a = rows->a, *restrict s_next = rows->s_next;
    double alpha = problem->alpha, shift = problem->shift, end_value = problem->end_value, top = problem->value_bound;
    double bound = problem->occupancy_bound, ratio_bound = problem->ratio_bound;
    double power = problem->power, average_from = problem->average_from, size = num_states;
    double W = *state->total_weight;
    i64 k = *state->k;
    u64 x = *state->rng;
    for (i64 i = 0; i < count; i++) {
        i64 pair = (i64)s[i] * num_actions + a[i], t = s_next[i];
        double g = gamma[i];
        double w = k < average_from ? 0.0 : power == 0.0 ? 1.0 : pow(k + 1.0, power);
        W += w;

        x = advance(x);
        i64 s_hat = below(x, num_states);
        i64 n = num_available[s_hat];
        x = advance(x);
        i64 a_hat = below(x, n);
        if (n < num_actions) { /* the a_hat-th of those that exist */
            i64 b = 0;
            for (i64 left = a_hat;; b++)
                if (available[s_hat * num_actions + b] && left-- == 0) break;
            a_hat = b;
        }
        i64 first = s_hat * num_actions, hat = first + a_hat;

        double mu_k = mu[pair], Q_k = Q[pair], lambda_hat = lambda[hat], Q_hat = Q[hat], V_hat = V[s_hat];
        double V_next = ended[i] ? end_value : V[t];
        double scale = (double)(num_states * n);

        /* line 5 */
        double Q_drop = g * scale * lambda_hat;
        int both = pair == hat;
        double new_hat = both ? Q_hat : clip(Q_hat - Q_drop, top);
        Q_moves[hat] += W * (new_hat - Q_hat);
        Q[hat] = new_hat;
        double new_k = clip(Q_k + g * mu_k - (both ? Q_drop : 0.0), top);
        Q_moves[pair] += W * (new_k - Q_k);
        Q[pair] = new_k;
        double V_drop = g * (size * eta[s_hat] - scale * lambda_hat);
        if (ended[i]) {
            double now = clip(V_hat - V_drop, top);
            V_moves[s_hat] += W * (now - V_hat);
            V[s_hat] = now;
        } else {
            both = t == s_hat;
            double now_hat = both ? V_hat : clip(V_hat - V_drop, top);
            V_moves[s_hat] += W * (now_hat - V_hat);
            V[s_hat] = now_hat;
            double now = clip((both ? V_hat - V_drop : V_next) - g * alpha * mu_k, top);
            V_moves[t] += W * (now - V_next);
            V[t] = now;
        }

        /* lines 6 and 7 */
        double raw = lambda_hat + g * scale * (Q_hat - V_hat), inside = clip(raw, bound), total = 0.0;
        for (i64 b = 0; b < num_actions; b++) {
            double value = lambda[first + b];
            total += b == a_hat ? inside : value;
        }
        if (total >= eta[s_hat]) {
            lambda_moves[hat] += W * (inside - lambda_hat);
            lambda[hat] = inside;
        } else {
            lift(lambda + first, lambda_moves + first, available + first, num_actions, eta[s_hat], bound, a_hat, raw, W);
        }
        double td_error = r[i] + shift + alpha * V_next - Q_k;
        mu[pair] = clip(mu_k + g * td_error, ratio_bound);

        mu_mass[pair] += w * mu_k;
        visits[pair] += 1;
        k++;
    }
    *state->total_weight = W, *state->k = k, *state->rng = x;
}
