#include "cli/waiting.h"

#include <stdlib.h>
#include <unistd.h>

void waiting_politely(char **argv) {
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    if (setenv("GOMP_SPINCOUNT", "4000", 1) == 0)
        execv("/proc/self/exe", argv);
}
