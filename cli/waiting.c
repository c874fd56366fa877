#include "cli/waiting.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void waiting_politely(char **argv) {
    const char *blas = getenv("OPENBLAS_NUM_THREADS");
    bool spins = !getenv("OMP_WAIT_POLICY") && !getenv("GOMP_SPINCOUNT");
    bool helpers = !blas || strcmp(blas, "1") != 0;
    if (!spins && !helpers)
        return;
    // Without both in place a new start would end here again.
    if ((!spins || setenv("GOMP_SPINCOUNT", "4000", 1) == 0) &&
        (!helpers || setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0))
        execv("/proc/self/exe", argv);
}
