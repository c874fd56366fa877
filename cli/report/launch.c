#include "cli/report/launch.h"

#include "core/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// What a launcher puts into the environment. `job` and `more` together tell one run from another;
// more may be absent. Later rows are inside of earlier ones (srun in an array job is srun).
typedef struct launcher {
    const char *by, *rank, *ranks, *local, *job, *more;
    bool comes_goes;
} launcher;

static const launcher launchers[] = {
    // The transports' key is drawn anew by each mpirun; the name space alone may come again.
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "PMIX_NAMESPACE", "OMPI_MCA_orte_precondition_transports", false},
    // A batch script has a rank too, but no step.
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_ID", "SLURM_JOB_ID",
     false},
    {"an array job", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", NULL, "SLURM_ARRAY_JOB_ID",
     NULL, true},
    // MPICH and its kin: ranks, but nothing that differs between runs.
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", NULL, NULL, false},
};

static const char *variable(const char *name) {
    const char *v = name ? getenv(name) : NULL;
    return v && *v ? v : NULL;
}

// -1: not there, or no number.
static int number(const char *name) {
    const char *v = variable(name);
    char *end = NULL;
    long n = v ? strtol(v, &end, 10) : -1;
    return v && *end == 0 && n >= 0 && n < INT_MAX ? (int)n : -1;
}

static const launcher *find(void) {
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const launcher *l = &launchers[i];
        if (number(l->rank) >= 0 && (!l->job || variable(l->job)))
            return l;
    }
    return NULL;
}

#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-"

static void only_word(char *s) {
    for (; *s; s++)
        if (!strchr(WORD, *s))
            *s = '.';
}

bool launch_read(launch *l, const char *name, err *e) {
    char host[128] = "";
    const launcher *x = find();
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        snprintf(host, sizeof host, "this machine");
    if (name && (strspn(name, WORD) != strlen(name) || strlen(name) >= sizeof l->run))
        return err_set(e, ERR_USAGE,
                       "option --run: \"%s\" is not a name; it takes letters, digits and ._:-, "
                       "fewer than %zu",
                       text_show(name), sizeof l->run);
    *l = (launch){.ranks = 1};
    if (!x) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        l->ranks = name ? 0 : 1;
        l->comes_goes = name != NULL;
        l->by = name ? "--run" : NULL;
        snprintf(l->who, sizeof l->who, "process %ld on %s", (long)getpid(), host);
        if (name)
            snprintf(l->run, sizeof l->run, "%s", name);
        else
            snprintf(l->run, sizeof l->run, "%ld.%lld.%ld", (long)getpid(), (long long)t.tv_sec,
                     t.tv_nsec);
        return true;
    }
    if (!name && !x->job)
        return err_set(
            e, ERR_USAGE,
            "%s tells ranks, but not which run they belong to: give all of them the same "
            "--run NAME, another one each time",
            x->by);
    l->by = x->by;
    l->comes_goes = x->comes_goes;
    l->rank = number(x->rank);
    l->ranks = number(x->ranks) > 0 ? number(x->ranks) : 0;
    l->local_rank = number(x->local) >= 0 ? number(x->local) : 0;
    if (name) {
        snprintf(l->run, sizeof l->run, "%s", name);
    } else {
        const char *more = variable(x->more);
        snprintf(l->run, sizeof l->run, "%s%s%.100s", variable(x->job), more ? "." : "",
                 more ? more : "");
        only_word(l->run);
    }
    if (l->comes_goes)
        snprintf(l->who, sizeof l->who, "array task %d on %s", l->rank, host);
    else if (l->ranks)
        snprintf(l->who, sizeof l->who, "rank %d of %d on %s", l->rank, l->ranks, host);
    else
        snprintf(l->who, sizeof l->who, "rank %d on %s", l->rank, host);
    return true;
}
