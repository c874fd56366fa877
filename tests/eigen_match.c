// The assignment problem by shortest augmenting paths with potentials.
#include "tests/eigen_match.h"

#include <math.h>
#include <stdlib.h>

static double cost(const double complex *got, const double complex *want, const double *unit, int i,
                   int j) {
    return cabs(got[i] - want[j]) / (unit ? unit[j] : 1);
}

double eigen_match(const double complex *got, const double complex *want, const double *unit,
                   int n) {
    double worst = INFINITY;
    size_t N = (size_t)n + 1; // row and column 0 mean "nobody yet"
    double *u = calloc(3 * N, sizeof *u);
    int *owner = calloc(2 * N, sizeof *owner);
    char *used = malloc(N);
    if (!u || !owner || !used)
        goto done;
    for (int i = 0; i < n; i++)
        if (!isfinite(cabs(got[i])) || !isfinite(cabs(want[i])))
            goto done;
    double *v = u + N, *reach = v + N;
    int *from = owner + N;
    for (int i = 1; i <= n; i++) {
        int j0 = 0;
        owner[0] = i;
        for (size_t j = 0; j < N; j++) {
            reach[j] = INFINITY;
            used[j] = 0;
        }
        do {
            int i0 = owner[j0], j1 = 0;
            double delta = INFINITY;
            used[j0] = 1;
            for (int j = 1; j <= n; j++) {
                if (used[j])
                    continue;
                double c = cost(got, want, unit, i0 - 1, j - 1) - u[i0] - v[j];
                if (c < reach[j]) {
                    reach[j] = c;
                    from[j] = j0;
                }
                if (reach[j] < delta) {
                    delta = reach[j];
                    j1 = j;
                }
            }
            for (int j = 0; j <= n; j++) {
                if (used[j]) {
                    u[owner[j]] += delta;
                    v[j] -= delta;
                } else {
                    reach[j] -= delta;
                }
            }
            j0 = j1;
        } while (owner[j0] != 0);
        while (j0 != 0) {
            owner[j0] = owner[from[j0]];
            j0 = from[j0];
        }
    }
    worst = 0;
    for (int j = 1; j <= n; j++)
        worst = fmax(worst, cost(got, want, unit, owner[j] - 1, j - 1));
done:
    free(used);
    free(owner);
    free(u);
    return worst;
}
