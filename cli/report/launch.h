// cli/report/launch.h - is this process one of several that were started together?
//
// mpirun, srun and Slurm's array jobs say so in the environment; no library of theirs is needed for
// that, and none is loaded: processes of one run share its work through the report's folder
// (core/claims.h).
#ifndef DELTOP_REPORT_LAUNCH_H
#define DELTOP_REPORT_LAUNCH_H

#include "core/err.h"

#include <stdbool.h>

typedef struct launch {
    const char *by;  // "mpirun", "srun", "an array job"; NULL: alone
    int rank;        // 0 when alone
    int ranks;       // 1 when alone, 0 when not known
    int local_rank;  // among those on this machine: which GPU it takes
    char run[160];   // one word for all processes of the run; unique when alone
    char who[256];   // "rank 2 of 4 on node7", for messages
    bool comes_goes; // starts and ends when a queue lets it: nobody can wait for the others
} launch;

// name: of --run, NULL when not given; processes with one name share a run.
// ERR_USAGE for a name with other characters than letters, digits and ._:-, and where a launcher
// tells ranks but nothing that tells one run from the next.
bool launch_read(launch *l, const char *name, err *e);

#endif
